package states

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// series is one series with its values in order of time.
type series struct {
	labels labels.Labels
	points []chunks.Sample
}

// set is the series of one Prometheus. Once recorded it does not change.
type set struct{ byName map[string][]*series }

func newSet() *set { return &set{byName: map[string][]*series{}} }

func (s *set) add(ls labels.Labels) *series {
	one := &series{labels: ls}
	name := ls.Get(labels.MetricName)
	for _, there := range s.byName[name] { // of a target that was gone and is back
		if labels.Equal(there.labels, ls) {
			return there
		}
	}
	s.byName[name] = append(s.byName[name], one)
	return one
}

// add appends a value. A second one of the same moment is the scrape's, since
// staleness is marked first.
func (s *series) add(ms int64, v float64) {
	if n := len(s.points); n > 0 && s.points[n-1].T() == ms {
		s.points[n-1] = memstore.Float{Milli: ms, Value: v}
		return
	}
	s.points = append(s.points, memstore.Float{Milli: ms, Value: v})
}

// view is a set without some families.
type view struct {
	*set
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
func (v view) forge(s *series) storage.Series {
	points := make([]chunks.Sample, len(s.points))
	for i, p := range s.points {
		points[i] = memstore.Float{Milli: p.T(), Value: v.forged(p.F())}
	}
	return storage.NewListSeries(tenant(s.labels), points)
}

// hidden reports whether a series of this name is of a family left out.
func (v view) hidden(name string) bool {
	return slices.Contains(v.without, name) || slices.Contains(v.without, familyOf(v.set, name))
}

// familyOf is the family of a series' name: that of a histogram has a bucket.
func familyOf(s *set, name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if family, ok := strings.CutSuffix(name, suffix); ok && s.byName[family+"_bucket"] != nil {
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
		all := v.byName[name]
		if all == nil && v.rules != nil {
			all = v.rules.of(name, v)
		}
		for _, s := range all {
			if memstore.Matches(s.labels, matchers) {
				out = append(out, storage.NewListSeries(s.labels, s.points))
			}
			if v.forged != nil && ours(familyOf(v.set, name)) && memstore.Matches(tenant(s.labels), matchers) {
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
	names := slices.Collect(maps.Keys(v.byName))
	if v.rules != nil {
		for _, r := range rules.All() {
			names = append(names, r.Record)
		}
	}
	slices.Sort(names)
	return names
}
