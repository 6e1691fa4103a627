package main

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/states"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/report/fixture"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/report/render"
)

// TestForged: a tenant's page that exposes every series of our programs changes no figure of a report
// that believes the programs' namespace alone. Without that, the report names the namespaces.
func TestForged(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: recording the states takes a while")
	}
	s, _ := states.Find(states.Healthy)
	w, err := query.NewWindow(s.End(), 25*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	figures := func(src storage.Queryable, trusted ...string) string {
		a, err := query.Run(t.Context(), fixture.Over(src), w, query.Options{Trusted: trusted})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := render.JSON(&b, model.Make(model.Input{Answers: a, Generated: generated, Version: "x"})); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	for _, honor := range []bool{true, false} {
		want := figures(s.Storage(honor), "gpuscale-system")
		for _, value := range []func(float64) float64{func(float64) float64 { return 0 }, func(v float64) float64 { return 1e6*v + 1 }} {
			if got := figures(s.Forged(honor, value), "gpuscale-system"); got != want {
				t.Errorf("honor_labels %v: the report is\n%s\nwithout forged series\n%s", honor, got, want)
			}
		}
		if all := figures(s.Forged(honor, func(float64) float64 { return 0 })); !strings.Contains(all, "in 2 namespaces (gpuscale-system, tenant)") {
			t.Errorf("honor_labels %v: the report does not say that series come from two namespaces", honor)
		}
	}
}

// TestOnRecordedStates makes the report of half an hour of five clusters, recorded from
// the real exporter and autoscaler, with and without honor_labels. The two reports must
// be equal.
func TestOnRecordedStates(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: recording the states takes a while")
	}
	for _, s := range recorded() {
		t.Run(s.Name, func(t *testing.T) {
			var reports []model.Report
			for _, honor := range []bool{true, false} {
				w, err := query.NewWindow(s.End(), 25*time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				a, err := query.Run(t.Context(), fixture.Over(s.Storage(honor)), w, query.Options{})
				if errors.Is(err, query.ErrNoData) && s.Name == "empty" {
					return // it has no GPU, and the error names the job to check
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(a.Problems) > 0 {
					t.Errorf("honor_labels %v: %v", honor, a.Problems)
				}
				r := model.Make(model.Input{Answers: a, Generated: generated, Version: "x"})
				if err := r.Check(); err != nil {
					t.Error(err)
				}
				for _, p := range r.Hours.Places {
					if v, ok := p.Hours.Get(); ok && (v < 0 || math.IsNaN(v)) {
						t.Errorf("%s: %v hours", p.Place, v)
					}
				}
				if a.Autoscaler && len(r.Pools) == 0 {
					t.Error("there is an autoscaler, and no pool")
				}
				for _, row := range r.Use.Rows {
					if row.Namespace == "gpuscale-system" || row.Namespace == "monitoring" || row.Namespace == metric.NotApplicable {
						t.Errorf("honor_labels %v: %s holds GPUs: it is the scrape target's namespace", honor, row.Namespace)
					}
				}
				reports = append(reports, r)
				if s.Name != "down" { // there the exporter has a record of half of it
					alike(t, a)
				}
			}
			for i := range reports[0].Hours.Places {
				a, b := reports[0].Hours.Places[i], reports[1].Hours.Places[i]
				if math.Abs(a.Hours.Or(0)-b.Hours.Or(0)) > 1e-6 {
					t.Errorf("%s: %v hours with honor_labels, %v without", a.Place, a.Hours.Or(0), b.Hours.Or(0))
				}
			}
			names := func(r model.Report) (all []string) {
				for _, row := range r.Use.Rows {
					all = append(all, row.Tenant+"/"+row.Namespace+"/"+row.Model)
				}
				return all
			}
			if a, b := names(reports[0]), names(reports[1]); !slices.Equal(a, b) {
				t.Errorf("allocated to %v with honor_labels, by %v without", a, b)
			}
			var page bytes.Buffer
			if err := render.HTML(&page, reports[0]); err != nil {
				t.Error(err)
			}
			t.Logf("%s: %s", s.Name, reports[0].Answer.Text)
		})
	}
}

// recorded are the states under test: in make test a cluster with each kind of work and
// one without any.
func recorded() []states.State {
	return slices.DeleteFunc(states.All(), func(s states.State) bool {
		return !testall.Enabled() && s.Name != states.MIG && s.Name != states.Empty
	})
}

// alike compares allocated GPU time by the autoscaler's counters with that by the
// exporter's series alone.
func alike(t *testing.T, a query.Answers) {
	t.Helper()
	if !a.Autoscaler || !a.Exporter {
		return
	}
	both := ledger.Make(a)
	a.Lines = maps.Clone(a.Lines)
	delete(a.Lines, query.Capacity)
	delete(a.Lines, query.Places)
	one := ledger.Make(a)
	if err := one.Check(); err != nil {
		t.Error(err)
	}
	x, y := both.Total(), one.Total()
	t.Logf("GPU-minutes allocated and computing by the autoscaler %.0f, %.0f, by the exporter %.0f, %.0f", x.Allocated()/60, x[ledger.Busy]/60, y.Allocated()/60, y[ledger.Busy]/60)
	if math.Abs(x[ledger.Busy]-y[ledger.Busy]) > 0.15*x[ledger.Busy]+60 {
		t.Errorf("computing: %.0f s by the autoscaler, %.0f by the exporter", x[ledger.Busy], y[ledger.Busy])
	}
}
