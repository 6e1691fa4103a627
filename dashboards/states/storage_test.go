package states

import (
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// view is a recording without some families.
type view struct {
	*memstore.DB
	without []string
	rules   *ruled // the rules' series; nil for none
}

// hidden reports whether a series of this name is of a family left out.
func (v view) hidden(name string) bool {
	return slices.Contains(v.without, name) || slices.Contains(v.without, familyOf(v.DB, name))
}

// familyOf is the family of a series' name: that of a histogram's bucket, sum or count is the histogram.
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
func (v view) selected(from, to int64, matchers []*labels.Matcher) []storage.Series {
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
			if !memstore.Matches(s.Labels, matchers) {
				continue
			}
			if one := s.Between(from, to); one != nil {
				out = append(out, one)
			}
		}
	}
	return out
}

// names that may match, sorted: a single one if the matchers name it.
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
