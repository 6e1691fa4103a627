package prices_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/prices"
)

const good = `currency: USD
source: our contract
date: 2026-01-02
prices:
- {model: NVIDIA H100 80GB HBM3, perHour: 2.5}
- {model: H100-80GB, perHour: 1, spot: true}
`

// TestGPU finds a price by any spelling of the model, spot prices separately, and also in a file with a byte order
// mark.
func TestGPU(t *testing.T) {
	for _, text := range []string{good, "\ufeff" + strings.ReplaceAll(good, "\n", "\r\n")} {
		l, err := prices.Parse("p.yaml", []byte(text))
		require.NoError(t, err)
		for _, c := range []struct {
			model string
			spot  bool
			want  float64
		}{{"H100-80GB", false, 2.5}, {"NVIDIA-H100-80GB-HBM3", true, 1}, {"L4", false, 0}} {
			if got, ok := l.GPU(c.model, c.spot); got != c.want || ok != (c.want > 0) {
				t.Errorf("%s spot %v: %v, %v", c.model, c.spot, got, ok)
			}
		}
	}
}

// TestProblems: all problems are reported at once, each with file, line and field.
func TestProblems(t *testing.T) {
	datadriven.RunTest(t, "testdata/lists.txt", func(_ *testing.T, d *datadriven.TestData) string {
		l, err := prices.Parse("p.yaml", []byte(d.Input))
		if err != nil {
			return err.Error() + "\n"
		}
		return fmt.Sprintf("%s, %s of %s: %v\n", l.Currency, l.Source, l.Date, l.Prices)
	})
}

// FuzzParse: a list is complete, or the error names the file.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("prices: [{model: x, perHour: nan}]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := prices.Parse("p.yaml", raw)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "p.yaml") {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		if l.Currency == "" || l.Source == "" || len(l.Date) != 10 || len(l.Prices) == 0 {
			t.Errorf("%q gave %+v", raw, l)
		}
		for _, p := range l.Prices {
			if !(p.PerHour > 0) {
				t.Errorf("%q gave %+v", raw, p)
			}
		}
	})
}
