package hpa

import (
	"errors"
	"maps"
	"math"

	core "k8s.io/api/core/v1"
)

// averagePods compares the pods' average with the target. Pods without a value
// get one against the change: idle when scaling up, on target when scaling down.
func (c calculator) averagePods(target int64, a Answer) Proposal {
	switch {
	case a.Error != nil:
		return Proposal{Error: a.Error}
	case len(a.Pods) == 0:
		return Proposal{Error: errors.New("no metrics returned from custom metrics API")}
	case len(c.pods) == 0:
		return Proposal{Error: errors.New("no pods returned by selector while calculating replica count")}
	}
	values := maps.Clone(a.Pods)
	p := Proposal{Target: target}
	missing, unready := c.group(values, &p)
	if len(values) == 0 {
		p.Error = errors.New("did not receive metrics for targeted pods (pods might be unready)")
		return p
	}
	p.Usage = average(values)
	p.Ratio = float64(p.Usage) / float64(target)
	p.Assumed = p.Ratio
	up := p.Ratio > 1
	if !(len(unready) > 0 && up) && len(missing) == 0 {
		if p.Within = c.tolerances.within(p.Ratio); p.Within {
			p.Replicas = c.specReplicas
			return p
		}
		p.Replicas = overflowing(math.Ceil(p.Ratio * float64(p.Counted)))
		return p
	}
	assume(values, missing, unready, p.Ratio, target)
	p.Assumed = float64(average(values)) / float64(target)
	p.Within = c.tolerances.within(p.Assumed)
	p.Replicas = overflowing(math.Ceil(p.Assumed * float64(len(values))))
	p.Reversed = p.Ratio < 1 && p.Assumed > 1 || up && p.Assumed < 1 ||
		p.Assumed < 1 && p.Replicas > c.specReplicas || p.Assumed > 1 && p.Replicas < c.specReplicas
	if p.Within || p.Reversed {
		p.Replicas = c.specReplicas
	}
	return p
}

// group classifies the pods and removes the values of those that do not count.
func (c calculator) group(values map[string]int64, p *Proposal) (missing, unready []string) {
	for _, pod := range c.pods {
		_, found := values[pod.Name]
		switch {
		case pod.Deleted || pod.Phase == core.PodFailed:
			p.Ignored++
			delete(values, pod.Name)
		case pod.Phase == core.PodPending:
			unready = append(unready, pod.Name)
			delete(values, pod.Name)
		case !found:
			missing = append(missing, pod.Name)
		default:
			p.Counted++
		}
	}
	p.Missing, p.Unready = len(missing), len(unready)
	return missing, unready
}

func assume(values map[string]int64, missing, unready []string, ratio float64, target int64) {
	for _, name := range missing {
		switch {
		case ratio < 1:
			values[name] = target
		case ratio > 1:
			values[name] = 0
		}
	}
	if ratio > 1 {
		for _, name := range unready {
			values[name] = 0
		}
	}
}

func average(values map[string]int64) int64 {
	total := int64(0)
	for _, v := range values {
		total += v
	}
	return total / int64(len(values))
}
