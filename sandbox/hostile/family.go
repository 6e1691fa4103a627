package hostile

import (
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// Family is a metric family that one of our components reads.
type Family struct {
	Name   string
	Type   metric.Type
	Labels []string
}

// Families returns all families of the catalogue, all series of our recording rules, and Prometheus' own
// series up. A series that is added to the catalogue is attacked automatically.
func Families() []Family {
	all := []Family{{"up", metric.Gauge, []string{"job"}}, {"scrape_samples_scraped", metric.Gauge, nil}}
	for _, d := range metric.All() {
		all = append(all, Family{d.Name, d.Type, d.AllLabels()})
	}
	for _, r := range metric.Reads() {
		for _, name := range metric.Names(r) {
			all = append(all, Family{name, r.Type, r.Labels})
		}
	}
	for _, r := range rules.All() {
		all = append(all, Family{r.Record, metric.Gauge, r.Labels})
	}
	return all
}

// suffixes are the suffixes of a classic histogram's series.
var suffixes = []string{"_bucket", "_sum", "_count"}

// Series returns the series names of a family.
func (f Family) Series() []string {
	if f.Type != metric.Histogram {
		return []string{f.Name}
	}
	names := []string{f.Name} // a native histogram has only this name
	for _, s := range suffixes {
		names = append(names, f.Name+s)
	}
	return names
}

// Of returns the family to which a series name belongs.
func Of(all []Family, name string) (Family, bool) {
	i := slices.IndexFunc(all, func(f Family) bool {
		suffix, ok := strings.CutPrefix(name, f.Name)
		return ok && (suffix == "" || slices.Contains(suffixes, suffix))
	})
	if i < 0 {
		return Family{}, false
	}
	return all[i], true
}
