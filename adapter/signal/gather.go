package signal

import (
	"strings"
	"time"

	k8slabels "k8s.io/apimachinery/pkg/labels"
)

// gathering computes one value for each pod.
type gathering struct {
	rule     *Rule
	selector k8slabels.Selector
	now      time.Time

	values   []podValue
	stale    int
	unusable int
	newest   time.Duration
	unused   *point   // newest stale or unusable point
	fresh    []*point // reused for each pod
}

// podValue is the value of one pod's series.
type podValue struct {
	value    float64
	oldest   int64 // scrape time, Unix milliseconds
	gateway  bool
	declared bool
}

// pod adds a pod's points. It reports whether the pod is stale, and whether all
// its series are a gateway's.
func (g *gathering) pod(points []point) (stale, gateway bool) {
	fresh := g.fresh[:0]
	var proof *point
	known, present := false, false
	gateway = true
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
			g.note(p)
		case age > g.rule.MaxAge:
			if g.newest < 0 || age < g.newest {
				g.newest = age
			}
			g.note(p)
		default:
			fresh = append(fresh, p)
		}
		known, present = true, present || !p.is(gone)
		gateway = gateway && g.rule.Sources[p.source].Gateway
	}
	g.fresh = fresh
	switch {
	case len(fresh) > 0:
		g.values = append(g.values, g.combine(g.preferred(fresh)))
	case proof != nil && !present:
		g.values = append(g.values, podValue{value: proof.value, oldest: proof.at, gateway: g.rule.Sources[proof.source].Gateway, declared: true})
	case known:
		g.stale++
		return true, gateway
	}
	return false, gateway
}

// note records a stale or unusable point.
func (g *gathering) note(p *point) {
	if g.unused == nil || p.at > g.unused.at {
		g.unused = p
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

// combine makes one value of a pod's points: duplicates merged, parts aggregated.
func (g *gathering) combine(points []*point) podValue {
	s := podValue{oldest: points[0].at, gateway: true}
	for _, p := range points {
		s.oldest = min(s.oldest, p.at)
		s.gateway = s.gateway && g.rule.Sources[p.source].Gateway
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

// dropGateways leaves out the gateways if any of their servers is known, fresh
// or stale.
func (g *gathering) dropGateways(staleGateways int) {
	servers := g.stale > staleGateways
	for _, s := range g.values {
		servers = servers || !s.gateway
	}
	if !servers {
		return
	}
	g.stale -= staleGateways
	kept := g.values[:0]
	for _, s := range g.values {
		if !s.gateway {
			kept = append(kept, s)
		}
	}
	g.values = kept
}

func (g *gathering) answer(subject string, asked int) (Answer, error) {
	if g.stale > 0 || len(g.values) == 0 {
		none := &NoAnswer{
			Rule: *g.rule, Subject: subject, Asked: asked, Stale: g.stale, Newest: g.newest, Unusable: g.unusable,
		}
		if g.unused != nil {
			none.Series = g.rule.Sources[g.unused.source].Metric
		}
		return Answer{}, none
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
