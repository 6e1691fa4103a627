package signal

import (
	"strings"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// gathering collects one value from each pod.
type gathering struct {
	rule     *Rule
	selector k8slabels.Selector
	now      time.Time

	said     []said
	silent   int
	unusable int
	newest   time.Duration
	heard    *point   // the newest of those that are nothing to go by
	fresh    []*point // room that is used again for each pod
}

// said is what one pod's series come to.
type said struct {
	value    float64
	oldest   int64 // scrape time, Unix milliseconds
	front    bool
	declared bool
}

// pod takes in a pod's points. It reports whether the pod has fallen silent,
// and whether what is silent stands in front of others.
func (g *gathering) pod(points []point) (silent, front bool) {
	fresh := g.fresh[:0]
	var proof *point
	heard, present := false, false
	front = true
	for i := range points {
		p := &points[i]
		if !g.matches(p) {
			continue
		}
		age := g.now.Sub(time.UnixMilli(p.at))
		switch {
		case age > Forget:
			continue
		case p.is(evidence):
			if age <= g.rule.MaxAge && (proof == nil || p.at > proof.at) {
				proof = p
			}
			continue
		case p.why > 0:
			g.unusable++
			g.hear(p)
		case age > g.rule.MaxAge:
			if g.newest < 0 || age < g.newest {
				g.newest = age
			}
			g.hear(p)
		default:
			fresh = append(fresh, p)
		}
		heard, present = true, present || !p.is(gone)
		front = front && g.rule.Sources[p.source].Front
	}
	g.fresh = fresh
	switch {
	case len(fresh) > 0:
		g.said = append(g.said, g.speak(g.preferred(fresh)))
	case proof != nil && !present:
		g.said = append(g.said, said{value: proof.value, oldest: proof.at, front: g.rule.Sources[proof.source].Front, declared: true})
	case heard:
		g.silent++
		return true, front
	}
	return false, front
}

// hear notes a point that is nothing to go by.
func (g *gathering) hear(p *point) {
	if g.heard == nil || p.at > g.heard.at {
		g.heard = p
	}
}

func (g *gathering) matches(p *point) bool {
	return g.selector.Empty() || g.selector.Matches(seriesLabels{p.labels, g.rule.Sources[p.source].Server})
}

// preferred keeps the points of the best tier that has any.
func (g *gathering) preferred(points []*point) []*point {
	best := g.rule.tier(points[0])
	for _, p := range points {
		best = min(best, g.rule.tier(p))
	}
	kept := points[:0]
	for _, p := range points {
		if g.rule.tier(p) == best {
			kept = append(kept, p)
		}
	}
	return kept
}

func (r *Rule) tier(p *point) int { return r.Sources[p.source].Tier }

// speak makes one value of a pod's points: duplicates merged, parts together.
func (g *gathering) speak(points []*point) said {
	s := said{oldest: points[0].at, front: true}
	for _, p := range points {
		s.oldest = min(s.oldest, p.at)
		s.front = s.front && g.rule.Sources[p.source].Front
		s.declared = s.declared || p.is(declared)
	}
	s.value = g.rule.PerPod.of(g.parts(points))
	return s
}

// parts returns one value for each real part of a pod, duplicates merged.
func (g *gathering) parts(points []*point) []float64 {
	if len(points) == 1 {
		return []float64{points[0].value}
	}
	byIdentity := map[string][]float64{}
	var order []string // a sum must not depend on map iteration
	for _, p := range points {
		id := g.rule.identity(p)
		if _, met := byIdentity[id]; !met {
			order = append(order, id)
		}
		byIdentity[id] = append(byIdentity[id], p.value)
	}
	values := make([]float64, len(order))
	for i, id := range order {
		values[i] = g.rule.Duplicates.of(byIdentity[id])
	}
	return values
}

func (r *Rule) identity(p *point) string {
	var b strings.Builder
	for _, name := range r.Sources[p.source].identity(r) {
		b.WriteString(p.labels.Get(name))
		b.WriteByte(0)
	}
	return b.String()
}

// withoutFronts leaves out the gateways if any of their servers is there,
// speaking or silent.
func (g *gathering) withoutFronts(silentFronts int) {
	servers := g.silent > silentFronts
	for _, s := range g.said {
		servers = servers || !s.front
	}
	if !servers {
		return
	}
	g.silent -= silentFronts
	kept := g.said[:0]
	for _, s := range g.said {
		if !s.front {
			kept = append(kept, s)
		}
	}
	g.said = kept
}

func (g *gathering) answer(subject string, asked int) (Answer, error) {
	if g.silent > 0 || len(g.said) == 0 {
		none := &NoAnswer{
			Rule: *g.rule, Subject: subject, Asked: asked, Silent: g.silent, Newest: g.newest, Unusable: g.unusable,
		}
		if g.heard != nil {
			none.Heard = g.rule.Sources[g.heard.source].Metric
		}
		return Answer{}, none
	}
	a := Answer{Pods: len(g.said)}
	values, oldest := make([]float64, len(g.said)), g.said[0].oldest
	for i, s := range g.said {
		values[i] = s.value
		oldest = min(oldest, s.oldest)
		if s.declared {
			a.Declared++
		}
	}
	a.Value, a.Time = g.rule.PerWorkload.of(values), time.UnixMilli(oldest)
	return a, nil
}
