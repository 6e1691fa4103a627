package collect

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// The exporter emits the series about GPUs that the catalogue lists.
func TestEverySeriesOfTheCatalogueHasAFamily(t *testing.T) {
	var names, promised []string
	for _, d := range served {
		names = append(names, d.Name)
	}
	for _, d := range metric.Of(metric.Exporter) {
		if !strings.HasPrefix(d.Name, "gpuscale_exporter_") {
			promised = append(promised, d.Name)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, promised) {
		t.Errorf("served   %q\npromised %q", names, promised)
	}
}

// Counts and measurements below zero are impossible; masks and states may be negative. A ratio that is above one by
// rounding is one; a larger one is impossible.
func TestPlausible(t *testing.T) {
	none := math.NaN()
	for field, numbers := range map[uint16]map[float64]float64{
		70: {-1: -1}, 73: {-1: -1}, 86: {-1: -1}, 89: {-1: -1}, 1503: {-1: -1}, 69: {-1: none}, 74: {-1: none}, 156: {-1: none}, 203: {-1: none}, 1502: {-1: none},
		1002: {0.5: 0.5, 1.0003: 1, 1.2: none, -0.1: none},
	} {
		for number, want := range numbers {
			n := number
			if ok := Plausible(field, &n); ok != !math.IsNaN(want) || ok && n != want {
				t.Errorf("%v of field %d: %v, %v; want %v", number, field, n, ok, want)
			}
		}
	}
}
