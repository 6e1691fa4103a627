package main

import (
	"encoding/json"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
)

// without is the answers without those of one query about a range of time.
func without(a query.Answers, id query.ID, from, to time.Time) query.Answers {
	a.Lines, a.Vectors = maps.Clone(a.Lines), maps.Clone(a.Vectors)
	var lines []prom.Line
	for _, l := range a.Lines[id] {
		l.Points = slices.DeleteFunc(slices.Clone(l.Points), func(p prom.Point) bool { return !p.Time.Before(from) && !p.Time.After(to) })
		if len(l.Points) > 0 {
			lines = append(lines, l)
		}
	}
	a.Lines[id] = lines
	delete(a.Vectors, id)
	a.Problems = append(slices.Clone(a.Problems), query.Problem{ID: id, From: from, To: to, Err: "HTTP 422: too much"})
	return a
}

// zeros are the sentences that state zero, by the query that must have been answered for them.
var zeros = map[query.ID]string{
	query.Waiting: "All demand was served", query.HPAAtMax: "No HPA reached its maximum",
	query.XIDs: "There were no XID errors", query.SickNodes: "No node had a sick GPU", query.PoolNodes: "No pool is known",
	query.Instances: "no GPU was partitioned into MIG instances", query.AllocatedTo: "No workload fits a smaller slice",
	query.PoolPrice: "set --prices",
}

// TestNoAnswerIsNoZero removes each answer in turn: the report and its exit code state it, and no figure of it is zero.
func TestNoAnswerIsNoZero(t *testing.T) {
	a := answered(t, minutes().Prometheus, 15*time.Minute)
	w := a.Window
	met := 0
	for _, asked := range a.Asked {
		id := asked.ID
		r := model.Make(model.Input{Answers: without(a, id, a.Window.From, a.Window.Until), Generated: generated})
		if !r.Incomplete() || !slices.Contains(r.Answer.Quality.Unanswered, string(id)) || r.Answer.Quality.Grade == "good" {
			t.Errorf("%s: quality %s, unanswered %v", id, r.Answer.Quality.Grade, r.Answer.Quality.Unanswered)
		}
		if err := balanced(r); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		page := words(r)
		if zero := zeros[id]; zero != "" {
			met++
			if strings.Contains(page, zero) {
				t.Errorf("%s was not answered, and the report has %q", id, zero)
			}
		}
		if !strings.Contains(page, "Queries not answered in full|"+string(id)) {
			t.Errorf("%s was not answered, and section 0 does not name it", id)
		}
		unknown := func(what string, n model.Number) {
			t.Helper()
			if v, known := n.Get(); known {
				t.Errorf("%s was not answered, and %s is %v", id, what, v)
			}
		}
		switch id {
		case query.Waiting:
			unknown("what waited", r.Answer.Figures[4].Value)
		case query.Nodes, query.Allocated:
			// These are in the autoscaler's counters too; without both they are unknown.
			b := without(without(without(a, id, w.From, w.Until), query.Places, w.From, w.Until), query.Capacity, w.From, w.Until)
			dark := model.Make(model.Input{Answers: b})
			for _, f := range dark.Answer.Figures[1:4] {
				unknown(f.Name, f.Value)
			}
			if strings.Contains(dark.Answer.Text, "Pods computed") || strings.Contains(dark.Answer.Text, "not allocated") {
				t.Errorf("%s was not answered: %s", id, dark.Answer.Text)
			}
		case query.PodWait:
			unknown("the wait", r.Demand.Waits[0].Count)
			if why := r.Demand.Waits[0].P50.Why(); !strings.Contains(why, "not answered") {
				t.Errorf("the wait is unknown since %s", why)
			}
		case query.AllocatedTo:
			if len(r.MIG.GPUs) > 0 || len(r.MIG.Fragmentation) > 0 {
				t.Error("allocations are unknown, and free slices are drawn")
			}
		case query.Actions:
			unknown("nodes added", r.Pools[0].Added)
			unknown("repartitions", r.Pools[0].Repartitions)
		case query.Failures:
			unknown("failures", r.Pools[0].Failures)
		case query.Interrupted:
			unknown("spot notices", r.Pools[0].Interrupted)
		case query.XIDs:
			unknown("the time between XIDs", r.Reliability.MTBF)
		case query.GPUs: // the number of a node's GPUs is unknown, and so is the price of one
			unknown("money", r.Hours.Money)
		}
	}
	if met != len(zeros) {
		t.Errorf("%d of %d sentences were tried: was a query renamed?", met, len(zeros))
	}
}

// TestNothingIsFreeForWantOfAnAnswer: where a query of the exporter has no answer, at the beginning, in the middle or
// throughout, no GPU becomes free, idle or healthy.
func TestNothingIsFreeForWantOfAnAnswer(t *testing.T) {
	a := answered(t, minutes().Prometheus.Without("gpuscale_autoscaler_"), 15*time.Minute)
	whole := ledger.Make(a).Total()
	third := a.Window.Length() / 3
	for _, id := range []query.ID{query.Nodes, query.Sick, query.Dark, query.Allocated, query.Measured, query.IdleAllocated, query.Busy} {
		for name, span := range map[string][2]time.Time{
			"throughout": {a.Window.From, a.Window.Until}, "first": {a.Window.From, a.Window.From.Add(third)}, "middle": {a.Window.From.Add(third), a.Window.From.Add(2 * third)},
			"last": {a.Window.From.Add(2 * third), a.Window.Until},
		} {
			l := ledger.Make(without(a, id, span[0], span[1]))
			if err := sound(l); err != nil {
				t.Errorf("%s, %s: %v", id, name, err)
			}
			got := l.Total()
			for p := range ledger.NumPlaces {
				if p != ledger.Unknown && p != ledger.Unmeasured && got[p] > whole[p]+1e-6 {
					t.Errorf("%s not answered, %s: %s is %.0f s, with the answer %.0f", id, name, p, got[p], whole[p])
				}
			}
			if got.Sum() > whole.Sum()+1e-6 {
				t.Errorf("%s not answered, %s: %.0f GPU-seconds, with the answer %.0f", id, name, got.Sum(), whole.Sum())
			}
		}
	}
}

// TestCountersContinueOverAGap: a day of the autoscaler's counters without an answer is interpolated from the values
// before and after it.
func TestCountersContinueOverAGap(t *testing.T) {
	a, err := answers()
	require.NoError(t, err)
	whole := ledger.Make(a)
	from := a.Window.From.Add(2 * 24 * time.Hour)
	for _, id := range []query.ID{query.Places, query.Capacity} {
		l := ledger.Make(without(a, id, from, from.Add(24*time.Hour)))
		if err := sound(l); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		got, want := l.Total(), whole.Total()
		for p := range ledger.NumPlaces {
			if math.Abs(got[p]-want[p]) > 0.01*whole.Capacity {
				t.Errorf("%s: %s is %.0f h, with the answer %.0f h", id, p, got[p]/3600, want[p]/3600)
			}
		}
	}
	// The growth of the first day is lost, not all growth before it.
	l := ledger.Make(without(a, query.Places, a.Window.From, a.Window.From.Add(24*time.Hour)))
	if sound(l) != nil || l.Capacity > whole.Capacity*1.02 { // the exporter has a record of that day
		t.Errorf("%.0f h, with the answer %.0f h: %v", l.Capacity/3600, whole.Capacity/3600, sound(l))
	}
}

// TestNoMoneyWithoutPrices: without prices money is unknown, not zero.
func TestNoMoneyWithoutPrices(t *testing.T) {
	raw, err := json.Marshal(alone(t))
	require.NoError(t, err)
	if all := regexp.MustCompile(`"(money|waste|cost)":.`).FindAllString(string(raw), -1); len(all) == 0 || slices.ContainsFunc(all, func(field string) bool { return !strings.HasSuffix(field, "{") }) {
		t.Errorf("money is a figure without prices, or nothing is called money: %q", all)
	}
}
