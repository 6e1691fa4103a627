package states

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// view is a recording without some families.
type view struct {
	*memstore.DB
	without []string
	rules   *ruled // the rules' series; nil for none
	forged  func(float64) float64
}

// ours reports whether a family is of one of our programs. A model server's page is its tenant's.
func ours(family string) bool {
	_, found := metric.Find(family)
	return found || strings.HasPrefix(family, "DCGM_") || family == "up"
}

// tenant are the labels that Prometheus gives to what a tenant's page shows.
func tenant(ls labels.Labels) labels.Labels {
	b := labels.NewBuilder(ls)
	if moved := ls.Get("namespace"); moved != "" && ls.Get("exported_namespace") == "" {
		b.Set("exported_namespace", moved)
	}
	return b.Set("namespace", "tenant").Set("job", "pods").Set("instance", "10.6.6.6:80").Labels()
}

// forge returns a series as a tenant's page shows it, with other values.
func (v view) forge(s *memstore.Recorded) storage.Series {
	points := make([]chunks.Sample, len(s.Points))
	for i, p := range s.Points {
		points[i] = memstore.Float{Milli: p.T(), Value: v.forged(p.F())}
	}
	return storage.NewListSeries(tenant(s.Labels), points)
}

// hidden reports whether a series of this name is of a family left out.
func (v view) hidden(name string) bool {
	return slices.Contains(v.without, name) || slices.Contains(v.without, familyOf(v.DB, name))
}

// familyOf is the family of a series' name: that of a histogram has a bucket.
func familyOf(d *memstore.DB, name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if family, ok := strings.CutSuffix(name, suffix); ok && d.Named(family+"_bucket") != nil {
			return family
		}
	}
	return name
}

// Querier implements storage.Queryable.
func (v view) Querier(from, to int64) (storage.Querier, error) {
	return memstore.Querier(from, to, v.selected), nil
}

// selected are the series that match, by name and then in order of recording.
func (v view) selected(_, _ int64, matchers []*labels.Matcher) []storage.Series {
	var out []storage.Series
	for _, name := range v.names(matchers) {
		if v.hidden(name) || !memstore.MatchesName(name, matchers) {
			continue
		}
		all := v.Named(name)
		if all == nil && v.rules != nil {
			all = v.rules.of(name, v)
		}
		for _, s := range all {
			if memstore.Matches(s.Labels, matchers) {
				out = append(out, storage.NewListSeries(s.Labels, s.Points))
			}
			if v.forged != nil && ours(familyOf(v.DB, name)) && memstore.Matches(tenant(s.Labels), matchers) {
				out = append(out, v.forge(s))
			}
		}
	}
	return out
}

// names that may match, sorted: one, where the matchers say which.
func (v view) names(matchers []*labels.Matcher) []string {
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return []string{m.Value}
		}
	}
	names := v.Names()
	if v.rules != nil {
		for _, r := range rules.All() {
			names = append(names, r.Record)
		}
	}
	slices.Sort(names)
	return names
}
