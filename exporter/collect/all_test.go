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

// Below zero is impossible for what is counted or measured, and means something in
// a mask and in a state.
func TestWhatMayBeBelowZero(t *testing.T) {
	for field, want := range map[uint16]bool{70: true, 73: true, 86: true, 89: true, 1503: true, 69: false, 74: false, 156: false, 203: false, 1502: false} {
		n := -1.0
		if got := Plausible(field, &n); got != want || n != -1 {
			t.Errorf("Plausible(%d, -1) = %v, and the number is %v", field, got, n)
		}
	}
}

// A ratio that is above one by rounding is one; whatever is further off is none.
func TestRatiosAreRounded(t *testing.T) {
	for number, want := range map[float64]float64{0.5: 0.5, 1.0003: 1, 1.2: -1, -0.1: -1} {
		n := number
		if ok := Plausible(1002, &n); ok != (want >= 0) || ok && n != want {
			t.Errorf("%v: %v, %v; want %v", number, n, ok, want)
		}
	}
}
