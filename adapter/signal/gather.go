package signal

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
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
	crowded  int
	newest   time.Duration
	limit    time.Duration // of the newest
	unused   *point        // newest stale or unusable point
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
func (g *gathering) pod(t *Table, k Key) (stale, gateway bool) {
	since, lives := t.since(k)
	since = since.Add(time.Second) // it is truncated: in its second the pod before it may have been scraped
	if !lives {
		return false, false
	}
	points := t.of(k)
	var fresh, silent []*point
	var proof *point
	present := false
	gateway = true
	for i := range points {
		p := &points[i]
		if p.at < since.UnixMilli() || p.is(page) || !g.matches(p) {
			continue
		}
		age, limit := g.now.Sub(time.UnixMilli(p.at)), g.rule.limit(p.every)
		switch {
		case age > Forget:
			continue
		case p.is(evidence):
			if age <= limit && (proof == nil || p.at > proof.at) {
				proof = p
			}
			continue
		case p.why == Crowded.code():
			g.crowded++
			silent = append(silent, p)
		case p.why > 0:
			if p.why != Stale.code() { // that is of unknown age
				g.unusable++
			}
			silent = append(silent, p)
		case age > limit:
			if g.newest < 0 || age < g.newest {
				g.newest, g.limit = age, limit
			}
			silent = append(silent, p)
		default:
			fresh = append(fresh, p)
		}
		present = present || !p.is(gone)
		gateway = gateway && g.rule.gateway(p)
	}
	silent = slices.DeleteFunc(silent, func(p *point) bool { return g.ended(p, points) })
	for _, p := range silent {
		g.note(p)
	}
	switch {
	case len(fresh) > 0:
		used := g.preferred(fresh)
		if g.lacks(used, silent) {
			g.stale++
			return true, gateway
		}
		g.values = append(g.values, g.combine(used))
	case proof != nil && !present:
		g.values = append(g.values, podValue{value: proof.value, oldest: proof.at, gateway: g.rule.gateway(proof), declared: true})
	case len(silent) > 0:
		g.stale++
		return true, gateway
	}
	return false, gateway
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
// come and go, and a later scrape of the same page does not have it.
func (g *gathering) ended(p *point, pod []point) bool {
	s := &g.rule.Sources[p.source]
	if !p.is(gone) || !s.Fleeting && s.identity(g.rule) != nil {
		return false
	}
	return slices.ContainsFunc(pod, func(u point) bool {
		return u.source == p.source && u.at > p.at && (u.is(page) || u.why == 0 && ofScraping(u.labels, true) == ofScraping(p.labels, true))
	})
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

// scraping are the labels that scraping and storing add to a series: two that
// differ in nothing else are the same thing, seen twice.
var scraping = map[string]bool{
	namespaceLabel: true, podLabel: true, "container": true, "node": true, "service": true, "endpoint": true, "job": true, "instance": true,
	"prometheus": true, "prometheus_replica": true, "replica": true, "__replica__": true, "receive": true, "cluster": true, "tenant_id": true,
}

// ofScraping returns the labels that scraping adds, or the series' own.
func ofScraping(ls labels.Labels, added bool) string {
	var b strings.Builder
	ls.Range(func(l labels.Label) {
		if scraping[l.Name] == added {
			b.WriteString(l.Name)
			b.WriteByte(0)
			b.WriteString(l.Value)
			b.WriteByte(0)
		}
	})
	return b.String()
}

func (r *Rule) identity(p *point) string {
	names := r.Sources[p.source].identity(r)
	if names == nil {
		return ofScraping(p.labels, false)
	}
	var b strings.Builder
	if r.Sources[p.source].Apart {
		b.WriteString(r.Sources[p.source].Metric)
		b.WriteByte(0)
	}
	for _, name := range names {
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
			Rule: *g.rule, Subject: subject, Asked: asked, Stale: g.stale, Newest: g.newest, Unusable: g.unusable, Crowded: g.crowded, Limit: g.limit,
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
