package signal

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// gathering computes one value for each pod, and collects what is missing.
type gathering struct {
	NoAnswer
	rule     *Rule
	selector k8slabels.Selector
	now      time.Time
	values   []podValue
	unused   *point // newest stale or unusable point
	gateways int    // stale pods whose series are all a gateway's
}

func (t *Table) gathering(selector k8slabels.Selector, now time.Time) gathering {
	return gathering{NoAnswer: NoAnswer{Newest: -1, Limit: t.rule.MaxAge}, rule: &t.rule, selector: selector, now: now}
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
	if !lives {
		return
	}
	since = since.Add(time.Second) // creation times are whole seconds: the previous pod of that name may have been scraped in the same one
	points := t.pods[k]
	var fresh, silent []*point
	var proof *point
	present, gateway := false, true
	for i := range points {
		p := &points[i]
		age, limit := g.now.Sub(time.UnixMilli(p.at)).Abs(), g.rule.limit(p.every) // a clock may have been set back
		switch {
		case p.kind == 'p' || age > max(Forget, limit) || p.at < since.UnixMilli() || !g.rule.selected(p, g.selector):
			continue
		case p.kind == 'a':
			if age <= limit && (proof == nil || p.at > proof.at) {
				proof = p
			}
			continue
		case p.why == "" && age <= limit:
			fresh = append(fresh, p)
		case !g.ended(p, points):
			silent = append(silent, p)
			g.count(p, age, limit)
		}
		present = present || !p.gone
		gateway = gateway && g.rule.gateway(p)
	}
	v, whole := g.combine(fresh, silent)
	switch {
	case whole:
		g.values = append(g.values, v)
	case len(fresh) == 0 && proof != nil && !present:
		g.values = append(g.values, podValue{value: proof.value, oldest: proof.at, gateway: g.rule.gateway(proof), declared: true})
	case len(fresh) > 0 || len(silent) > 0:
		g.Stale++
		if gateway {
			g.gateways++
		}
	}
}

// count counts a silent point, for the error.
func (g *gathering) count(p *point, age, limit time.Duration) {
	switch {
	case p.why == Crowded:
		g.Crowded++
	case p.why != "" && p.why != Stale: // Stale here: of unknown age
		g.Unusable++
	case p.why == "" && (g.Newest < 0 || age < g.Newest):
		g.Newest, g.Limit = age, limit
	}
	if g.unused == nil || p.at > g.unused.at {
		g.unused = p
	}
}

// combine makes one value of a pod's fresh points in the best tier that has any: it merges duplicates, then aggregates
// parts. A gone point does not count if its part has one that is present. whole is false if a part of that tier has
// silent points only, since the sum of the others is not the pod's. It is also false if the points are from several
// clusters.
func (g *gathering) combine(fresh, silent []*point) (v podValue, whole bool) {
	if len(fresh) == 0 {
		return v, false
	}
	if one := fresh[0]; len(fresh)+len(silent) == 1 {
		return podValue{one.value, one.at, g.rule.gateway(one), one.declared}, true
	}
	best := g.rule.tier(slices.MinFunc(fresh, func(a, b *point) int { return cmp.Compare(g.rule.tier(a), g.rule.tier(b)) }))
	v = podValue{oldest: math.MaxInt64, gateway: true}
	parts, present, cluster := map[string][]float64{}, map[string]bool{}, ""
	added := g.rule.added(fresh, silent)
	for _, p := range fresh {
		if g.rule.tier(p) != best {
			continue
		}
		id := g.rule.identity(p, added)
		if p.gone && present[id] {
			continue
		}
		present[id] = !p.gone
		parts[id] = append(parts[id], p.value)
		if c := p.labels.Get(clusterLabel); cluster != "" && c != "" && c != cluster && !slices.Contains(g.rule.Sources[p.source].Parts(g.rule), clusterLabel) {
			g.Clusters = true // two pods with one name, in two clusters
			return v, false
		}
		cluster = cmp.Or(p.labels.Get(clusterLabel), cluster)
		v.oldest, v.gateway, v.declared = min(v.oldest, p.at), v.gateway && g.rule.gateway(p), v.declared || p.declared
	}
	for _, p := range silent {
		if g.rule.tier(p) == best && parts[g.rule.identity(p, added)] == nil {
			return v, false
		}
	}
	var values []float64
	for _, id := range slices.Sorted(maps.Keys(parts)) { // a sum must not depend on map iteration
		values = append(values, g.rule.Duplicates.of(parts[id]))
	}
	v.value = g.rule.PerPod.of(values)
	return v, true
}

// ended reports whether a part of the pod has ended, and is not merely silent. Its source's
// parts come and go (as a gateway's do with its servers), and a later scrape of the same page
// lacks it.
func (g *gathering) ended(p *point, pod []point) bool {
	s := &g.rule.Sources[p.source]
	if !p.gone || !s.Fleeting && !g.rule.gateway(p) && s.Parts(g.rule) != nil {
		return false
	}
	return slices.ContainsFunc(pod, func(u point) bool {
		return u.at > p.at && (u.kind == 'p' && u.source == p.source || u.kind == 'v' && u.why == "" && sameTarget(u.labels, p.labels))
	})
}

// selected reports whether a request's selector matches a series. A selector about a label that the
// query has summed away matches nothing, even if it excludes a value: the value may be in the sum.
func (r *Rule) selected(p *point, selector k8slabels.Selector) bool {
	requirements, _ := selector.Requirements()
	summed := func(q k8slabels.Requirement) bool { return !r.keeps(p, q.Key()) }
	return selector.Empty() || !slices.ContainsFunc(requirements, summed) && selector.Matches(seriesLabels{p.labels, r.Sources[p.source].Server})
}

// keeps reports whether the query keeps a label that a point's series may have had.
func (r *Rule) keeps(p *point, label string) bool {
	s := &r.Sources[p.source]
	switch {
	case label == SourceLabel:
		return true
	case s.Form == PromQL:
		return slices.Contains(r.owner(), label)
	case s.histogram(), p.kind != 'v':
		return slices.Contains(query{Rule: *r, source: *s}.subject(), label)
	}
	return !slices.Contains(s.Without, label)
}

// gateway reports whether a series is a gateway's. The series of vLLM's router have no model (its
// services/metrics_service); a server's may have a label of its name from its pod.
func (r *Rule) gateway(p *point) bool {
	s := &r.Sources[p.source]
	routed := s.GatewayLabel != "" && p.labels.Has(s.GatewayLabel) && !(s.Server == metric.ServerVLLM && p.labels.Has(metric.LabelModelName))
	return s.Gateway || routed || s.Server != "" && p.labels.Has(metric.LabelWorkerAddr)
}

func (r *Rule) tier(p *point) int { return r.Sources[p.source].Rank() }

// target are the labels that name a scrape's target, and those of the servers that stored it.
// scraping are all labels that scraping and storing add to a series.
var (
	target = []string{
		namespaceLabel, podLabel, "job", "instance", "prometheus", "prometheus_replica", "replica", "__replica__", "receive", clusterLabel, "tenant_id",
	}
	scraping = append(slices.Clip(target), "container", "node", "service", "endpoint")
)

// clusterLabel distinguishes the clusters in a Thanos or Mimir that has several.
const clusterLabel = "cluster"

func sameTarget(a, b labels.Labels) bool {
	return labels.Equal(a.MatchLabels(true, target...), b.MatchLabels(true, target...))
}

// added returns the labels that scraping has added to a pod's series. Two series of one target that
// differ in nothing but the other labels of scraping are not duplicates: these labels are the page's
// own.
func (r *Rule) added(fresh, silent []*point) []string {
	met := map[string]bool{}
	for _, p := range slices.Concat(fresh, silent) {
		if p.gone || r.Sources[p.source].Parts(r) != nil {
			continue
		}
		id := fmt.Sprint(p.source, p.labels.MatchLabels(true, target...), r.identity(p, scraping))
		if met[id] {
			return target
		}
		met[id] = true
	}
	return scraping
}

// identity returns the values that distinguish a part of a pod. added are the labels that scraping
// has added.
func (r *Rule) identity(p *point, added []string) string {
	s := &r.Sources[p.source]
	names := s.Parts(r)
	if names == nil {
		return p.labels.MatchLabels(false, added...).String()
	}
	var b strings.Builder
	if s.Apart {
		b.WriteString(s.Metric)
	}
	b.WriteString(own(p.labels, names))
	return b.String()
}

// own joins the values of a page's own labels. Where the target has a label of the same name, Prometheus
// has renamed the page's.
func own(ls labels.Labels, names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteByte(0)
		b.WriteString(cmp.Or(ls.Get(metric.Exported+name), ls.Get(name)))
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
