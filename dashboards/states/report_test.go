package states

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
	"github.com/gpuscale/gpuscale/report/top"
)

// reported are the states whose report is tested: in make test a cluster with each kind of work, and one without work.
func reported() []State {
	all := All()
	if testall.Enabled() {
		return all
	}
	return []State{all[1], all[3]}
}

// The report of half an hour of a cluster is the same with and without honor_labels.
func TestReport(t *testing.T) {
	for _, s := range reported() {
		t.Run(s.Name, func(t *testing.T) {
			plain, ok := report(t, s, false)
			honored, also := report(t, s, true)
			if !ok || !also {
				return
			}
			for i, p := range plain.Hours.Places {
				v, known := p.Hours.Get()
				if q := honored.Hours.Places[i]; known && v < 0 || math.Abs(v-q.Hours.Or(0)) > 1e-6 {
					t.Errorf("%s: %v hours without honor_labels, %v with it", p.Place, v, q.Hours.Or(0))
				}
			}
			names := func(r model.Report) (all []string) {
				for _, row := range r.Use.Rows {
					if slices.Contains([]string{"gpuscale-system", "monitoring", metric.NotApplicable}, row.Namespace) {
						t.Errorf("%s holds GPUs: it is the scrape target's namespace", row.Namespace)
					}
					all = append(all, row.Tenant+"/"+row.Namespace+"/"+row.Model)
				}
				return all
			}
			if a, b := names(plain), names(honored); !slices.Equal(a, b) {
				t.Errorf("allocated to %v without honor_labels, to %v with it", a, b)
			}
			if err := render.HTML(&bytes.Buffer{}, plain); err != nil {
				t.Error(err)
			}
		})
	}
}

// report is the report of a state; ok is false for one without a GPU.
func report(t *testing.T, s State, honor bool) (r model.Report, ok bool) {
	t.Helper()
	w, err := query.NewWindow(s.End(), 25*time.Minute)
	require.NoError(t, err)
	a, err := query.Run(t.Context(), memstore.Over(s.Storage(honor)), w, query.Options{})
	if s.Name == Empty && errors.Is(err, query.ErrNoData) {
		return r, false
	}
	if err != nil || len(a.Problems) > 0 {
		t.Fatal(err, a.Problems)
	}
	if r = model.Make(model.Input{Answers: a, Generated: s.End(), Version: "x"}); a.Autoscaler && len(r.Pools) == 0 {
		t.Error("there is an autoscaler, and no pool")
	}
	sound(t, ledger.Make(a))
	if s.Name != Down { // in that state the exporter has a record of half of the time
		alike(t, a)
	}
	return r, true
}

// sound checks that the places add up to the capacity.
func sound(t *testing.T, l ledger.Ledger) {
	t.Helper()
	if sum := l.Total().Sum(); max(l.Over, math.Abs(sum-l.Capacity)) > ledger.Tolerance*l.Capacity {
		t.Errorf("the places add up to %.0f GPU-seconds, the capacity is %.0f, of them %.0f in excess", sum, l.Capacity, l.Over)
	}
}

// alike compares allocated GPU time by the autoscaler's counters with that by the
// exporter's series alone.
func alike(t *testing.T, a query.Answers) {
	t.Helper()
	both := ledger.Make(a).Total()
	a.Lines = maps.Clone(a.Lines)
	delete(a.Lines, query.Capacity)
	delete(a.Lines, query.Places)
	one := ledger.Make(a)
	sound(t, one)
	if x, y := both[ledger.Busy], one.Total()[ledger.Busy]; math.Abs(x-y) > 0.15*x+60 {
		t.Errorf("computing: %.0f s by the autoscaler, %.0f by the exporter", x, y)
	}
}

// "top" shows the same with and without honor_labels.
func TestTop(t *testing.T) {
	for _, s := range reported() {
		var tables []string
		for _, honor := range []bool{true, false} {
			d := query.Dialect{ExporterMoved: !honor}
			rows, _, err := top.Read(t.Context(), memstore.Over(s.Storage(honor)), d, s.End(), "")
			if err != nil && !errors.Is(err, top.ErrNoGPUs) {
				t.Fatal(s.Name, err)
			}
			if (len(rows) == 0) != (s.Name == Empty || s.Name == Down) {
				t.Errorf("%s: %d rows", s.Name, len(rows))
			}
			var b bytes.Buffer
			require.NoError(t, top.Write(&b, rows, "", "table"))
			tables = append(tables, b.String())
		}
		if tables[0] != tables[1] {
			t.Errorf("%s: with honor_labels\n%s\nwithout\n%s", s.Name, tables[0], tables[1])
		}
	}
}
