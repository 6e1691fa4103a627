package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// TestTheFakeOfPrometheusAnswersBothAdapters: each rule of ours that the
// fleet has series for gets a fresh value for each pod, and prometheus-adapter's
// kind of query one for the pods it names.
func TestTheFakeOfPrometheusAnswersBothAdapters(t *testing.T) {
	f, err := newFleet(200, 4, len(known()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := startPrometheus(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	client, err := prom.New(prom.Config{URL: p.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]signal.Rule{}
	for _, r := range signal.Builtin(time.Minute) {
		rules[r.Name] = r
	}
	for _, s := range f.signals {
		rule, ok := rules[s.signal]
		if !ok {
			t.Errorf("no built-in rule is called %s: HPAs of the bench would ask for nothing", s.signal)
			continue
		}
		for _, query := range []string{rule.Query(), rule.History()} {
			before := time.Now()
			vector, err := client.Query(t.Context(), query, time.Time{})
			if err != nil {
				t.Fatalf("%s: %v", s.signal, err)
			}
			after := time.Now()
			if len(vector) != 2*f.pods { // the value and the time of each
				t.Errorf("%s: %d samples for %d pods", s.signal, len(vector), f.pods)
			}
			for _, sample := range vector {
				if !strings.HasPrefix(sample.Labels.Get(signal.PartLabel), "t") {
					continue
				}
				at := time.UnixMilli(int64(math.Round(sample.Value * 1000)))
				if oldest := before.Add(-(scrapeInterval + 1) * time.Millisecond); at.Before(oldest) || at.After(after) {
					t.Fatalf("%s: a sample of %s, asked for between %s and %s", s.signal, at, before, after)
				}
			}
		}
	}
	a := f.ask(3)
	query := `sum(vllm:num_requests_waiting{namespace="` + a.namespace + `",pod=~"` + pod(3, 0) + "|" + pod(3, 7) + `"}) by (pod)`
	if vector, err := client.Query(t.Context(), query, time.Time{}); err != nil || len(vector) != 2 {
		t.Errorf("%s: %v, %v", query, vector, err)
	}
}

func TestMissedGoals(t *testing.T) {
	good := func() row {
		return row{
			hpas: 1, queries: 100, rss: goalMemory,
			inside: inside{count: 100, quick: 99},
		}
	}
	if got := missed([]row{good(), good()}); len(got) != 0 {
		t.Errorf("all goals are reached, but: %v", got)
	}
	for what, spoil := range map[string]func(*row){
		"at most 5ms": func(r *row) { r.inside.quick = 98 },
		"LISTs":       func(r *row) { r.lists = 1 },
		"resident":    func(r *row) { r.rss++ },
		"queries":     func(r *row) { r.queries = 120 },
		"were errors": func(r *row) { r.answers.errors = map[string]int{"x": 1} },
	} {
		bad := good()
		spoil(&bad)
		if what == "resident" {
			bad.rss += 1 << 20
		}
		if got := missed([]row{good(), bad}); len(got) != 1 || !strings.Contains(got[0], what) {
			t.Errorf("a row that misses %q gives %q", what, got)
		}
	}
}

func TestFleetRefusesWhatItCannotHold(t *testing.T) {
	for _, bad := range [][3]int{{5, 1, 1}, {100, 11, 1}, {100, 1, 0}, {100, 1, len(known()) + 1}, {100, 0, 1}} {
		if _, err := newFleet(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%d pods in %d namespaces with %d signals are taken", bad[0], bad[1], bad[2])
		}
	}
}
