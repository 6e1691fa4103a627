package signal

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// gathering computes one value for each pod, and what is missing of them.
type gathering struct {
	NoAnswer
	rule     *Rule
	selector k8slabels.Selector
	now      time.Time
	values   []podValue
	unused   *point // newest stale or unusable point
	gateways int    // of the stale pods: all their series are a gateway's
}

func (t *Table) gathering(selector k8slabels.Selector, now time.Time) gathering {
	return gathering{NoAnswer: NoAnswer{Newest: -1}, rule: &t.rule, selector: selector, now: now}
}

// podValue is the value of one pod's series.
type podValue struct {
	value    float64
	oldest   int64 // scrape time, Unix milliseconds
	gateway  bool
	declared bool
}

// pod adds a pod's points.
func (g *gathering) pod(t *Table, k Key) {
	since, lives := t.since(k)
	since = since.Add(time.Second) // it is truncated: in its second the pod before it may have been scraped
	if !lives {
		return
	}
	points := t.pods[k]
	var fresh, silent []*point
	var proof *point
	present, gateway := false, true
	for i := range points {
		p := &points[i]
		if p.at < since.UnixMilli() || p.kind == 'p' || !g.rule.selected(p, g.selector) {
			continue
		}
		age, limit := g.now.Sub(time.UnixMilli(p.at)), g.rule.limit(p.every)
		switch {
		case age > Forget:
			continue
		case p.kind == 'a':
			if age <= limit && (proof == nil || p.at > proof.at) {
				proof = p
			}
			continue
		case p.why == Crowded:
			g.Crowded++
			silent = append(silent, p)
		case p.why != "":
			if p.why != Stale { // that is of unknown age
				g.Unusable++
			}
			silent = append(silent, p)
		case age > limit:
			if g.Newest < 0 || age < g.Newest {
				g.Newest, g.Limit = age, limit
			}
			silent = append(silent, p)
		default:
			fresh = append(fresh, p)
		}
		present = present || !p.gone
		gateway = gateway && g.rule.gateway(p)
	}
	silent = slices.DeleteFunc(silent, func(p *point) bool { return g.ended(p, points) })
	for _, p := range silent {
		if g.unused == nil || p.at > g.unused.at {
			g.unused = p
		}
	}
	used := g.preferred(fresh)
	switch {
	case len(used) > 0 && !g.lacks(used, silent):
		g.values = append(g.values, g.combine(used))
	case len(used) == 0 && proof != nil && !present:
		g.values = append(g.values, podValue{value: proof.value, oldest: proof.at, gateway: g.rule.gateway(proof), declared: true})
	case len(used) > 0 || len(silent) > 0:
		g.Stale++
		if gateway {
			g.gateways++
		}
	}
}

// lacks reports whether a part of the pod has silent points only, among the
// sources in use: the others' sum is not the pod's.
func (g *gathering) lacks(used, silent []*point) bool {
	var there map[string]bool
	for _, p := range silent {
		if g.rule.tier(p) != g.rule.tier(used[0]) {
			continue
		}
		if there == nil {
			there = map[string]bool{}
			for _, u := range used {
				there[g.rule.identity(u)] = true
			}
		}
		if !there[g.rule.identity(p)] {
			return true
		}
	}
	return false
}

// ended reports whether a part of the pod is not silent but over: its source's parts
// come and go, and a later scrape of the same page, in which it has others, does not have it.
func (g *gathering) ended(p *point, pod []point) bool {
	s := &g.rule.Sources[p.source]
	if !p.gone || !s.Fleeting && s.identity(g.rule) != nil {
		return false
	}
	return slices.ContainsFunc(pod, func(u point) bool {
		return u.at > p.at && (u.kind == 'p' && u.source == p.source || u.kind == 'v' && u.why == "" && sameTarget(u.labels, p.labels))
	})
}

func (r *Rule) selected(p *point, selector k8slabels.Selector) bool {
	return selector.Empty() || selector.Matches(seriesLabels{p.labels, r.Sources[p.source].Server})
}

// preferred keeps the points of the best tier that has any.
func (g *gathering) preferred(points []*point) []*point {
	if len(points) == 0 {
		return nil
	}
	tier := func(a, b *point) int { return cmp.Compare(g.rule.tier(a), g.rule.tier(b)) }
	best := slices.MinFunc(points, tier)
	return slices.DeleteFunc(points, func(p *point) bool { return tier(p, best) != 0 })
}

// gateway reports whether a series is a gateway's.
func (r *Rule) gateway(p *point) bool {
	s := &r.Sources[p.source]
	return s.Gateway || s.GatewayLabel != "" && p.labels.Get(s.GatewayLabel) != ""
}

func (r *Rule) tier(p *point) int { return r.Sources[p.source].Tier }

// combine makes one value of a pod's points: duplicates merged, parts aggregated.
func (g *gathering) combine(points []*point) podValue {
	s := podValue{oldest: points[0].at, gateway: true}
	for _, p := range points {
		s.oldest = min(s.oldest, p.at)
		s.gateway = s.gateway && g.rule.gateway(p)
		s.declared = s.declared || p.declared
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
	for _, p := range points {
		id := g.rule.identity(p)
		byIdentity[id] = append(byIdentity[id], p.value)
	}
	var all []float64
	for _, id := range slices.Sorted(maps.Keys(byIdentity)) { // a sum must not depend on map iteration
		all = append(all, g.rule.Duplicates.of(byIdentity[id]))
	}
	return all
}

// scraping are the labels that scraping and storing add to a series: two that
// differ in nothing else are the same thing, seen twice.
var scraping = []string{
	namespaceLabel, podLabel, "container", "node", "service", "endpoint", "job", "instance",
	"prometheus", "prometheus_replica", "replica", "__replica__", "receive", "cluster", "tenant_id",
}

// sameTarget reports whether two series have the same of these labels.
func sameTarget(a, b labels.Labels) bool {
	return !slices.ContainsFunc(scraping, func(name string) bool { return a.Get(name) != b.Get(name) })
}

func (r *Rule) identity(p *point) string {
	s := &r.Sources[p.source]
	names := s.identity(r)
	if names == nil {
		return p.labels.MatchLabels(false, scraping...).String()
	}
	if s.Apart {
		return s.Metric + "\x00" + values(p.labels, names)
	}
	return values(p.labels, names)
}

// values are those of some labels.
func values(ls labels.Labels, names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(ls.Get(name))
		b.WriteByte(0)
	}
	return b.String()
}

// dropGateways leaves out the gateways if any of their servers is known, fresh
// or stale.
func (g *gathering) dropGateways() {
	if g.Stale == g.gateways && !slices.ContainsFunc(g.values, func(v podValue) bool { return !v.gateway }) {
		return
	}
	g.Stale -= g.gateways
	g.values = slices.DeleteFunc(g.values, func(v podValue) bool { return v.gateway })
}

func (g *gathering) answer(subject string, asked int) (Answer, error) {
	if g.Stale > 0 || len(g.values) == 0 {
		none := g.NoAnswer
		none.Rule, none.Subject, none.Asked = *g.rule, subject, asked
		if g.unused != nil {
			none.Series = g.rule.Sources[g.unused.source].Metric
		}
		return Answer{}, &none
	}
	a := Answer{Pods: len(g.values)}
	values, oldest := make([]float64, len(g.values)), g.values[0].oldest
	for i, s := range g.values {
		values[i] = s.value
		oldest = min(oldest, s.oldest)
		if s.declared {
			a.Declared++
		}
	}
	a.Value, a.Time = g.rule.PerWorkload.of(values), time.UnixMilli(oldest)
	return a, nil
}
