package collect

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// What the catalogue says the exporter emits about GPUs is what it emits.
func TestEverySeriesOfTheCatalogueHasAFamily(t *testing.T) {
	var served, promised []string
	for _, f := range all() {
		served = append(served, f.desc.Name)
	}
	for _, d := range metric.Of(metric.Exporter) {
		if !strings.HasPrefix(d.Name, "gpuscale_exporter_") {
			promised = append(promised, d.Name)
		}
	}
	slices.Sort(served)
	if !slices.Equal(served, promised) {
		t.Errorf("served   %q\npromised %q", served, promised)
	}
}

func TestFieldsAreSorted(t *testing.T) {
	if fields := Fields(); !slices.IsSorted(fields) || len(slices.Compact(fields)) != len(Fields()) {
		t.Errorf("fields %v", fields)
	}
}
