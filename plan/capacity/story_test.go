package capacity_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestStories runs testdata/stories. A block "snapshot" has the text of a scenario;
// those below it ask for tables of it, or have the file's ledger observe it.
//
//	snapshot                      a new snapshot, its lines in plan/scenario's language
//	supply                        stranded
//	pending [ns/pod=REASON …]     with these verdicts
//	ledger gap=5h                 a new ledger in which an observation holds so long
//	add at=10m                    the ledger observes the snapshot, so long after the epoch
//	advance to=1h                 the ledger accounts up to here
//	totals
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		s := story{ledger: capacity.NewLedger(capacity.LedgerOptions{})}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := s.do(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			checkSurvey(t, s.survey)
			if err := check(s.ledger); err != nil {
				t.Errorf("%s: %v", d.Pos, err)
			}
			return out
		})
	})
}

type story struct {
	snapshot plan.Snapshot
	survey   capacity.Survey
	ledger   *capacity.Ledger
}

func (s *story) do(d *datadriven.TestData) (string, error) {
	word := func(key string) string {
		for _, a := range d.CmdArgs {
			if a.Key == key && len(a.Vals) == 1 {
				return a.Vals[0]
			}
		}
		return ""
	}
	switch d.Cmd {
	case "snapshot":
		snapshot, _, err := scenario.Parse(d.Input)
		if err == nil {
			err = snapshot.Check()
		}
		s.snapshot, s.survey = snapshot, capacity.NewSurvey(snapshot, capacity.DefaultRules())
		return "ok\n", err
	case "supply":
		return printed(s.survey.Supply()), nil
	case "pending":
		var verdicts []plan.Verdict
		for _, a := range d.CmdArgs {
			verdicts = append(verdicts, plan.Verdict{Kind: plan.KindPod, Subject: a.Key, Reason: plan.Reason(a.Vals[0])})
		}
		return printed(s.survey.Pending(verdicts)), nil
	case "stranded":
		return printed(s.survey.Stranded()), nil
	case "ledger":
		gap, err := time.ParseDuration(word("gap"))
		s.ledger = capacity.NewLedger(capacity.LedgerOptions{MaxGap: gap})
		return "ok\n", err
	case "add":
		after, err := time.ParseDuration(word("at"))
		if err != nil {
			return "", err
		}
		s.snapshot.Now = scenario.Epoch.Add(after)
		s.survey = capacity.NewSurvey(s.snapshot, capacity.DefaultRules())
		return "ok\n", s.ledger.Add(s.survey.Observation())
	case "advance":
		to, err := time.ParseDuration(word("to"))
		if err != nil {
			return "", err
		}
		return "ok\n", s.ledger.Advance(scenario.Epoch.Add(to))
	case "totals":
		return printed(s.ledger.Rows()), nil
	}
	return "", fmt.Errorf("there is no %s", d.Cmd)
}

// checkSurvey is what holds of every survey: the parts of a GPU add up to the
// GPU, in compute and in memory, none is negative, and lost parts have a cause.
func checkSurvey(t testing.TB, sv capacity.Survey) {
	t.Helper()
	for i := range sv.GPUs {
		c := &sv.GPUs[i]
		var sum capacity.Size
		for _, p := range c.Parts {
			if p.Size.Compute < 0 || p.Size.Memory < 0 {
				t.Errorf("%s: a part of %+v", c.Name(), p.Size)
			}
			if lost := p.State == capacity.Fragmented || p.State == capacity.Stranded; lost != (p.Cause != capacity.NoCause) {
				t.Errorf("%s: %s because %s", c.Name(), p.State, p.Cause)
			}
			if p.State == capacity.Allocated && p.AllocatedTo == "" || p.State == capacity.Free && p.AllocatedTo != "" {
				t.Errorf("%s: %s by %q", c.Name(), p.State, p.AllocatedTo)
			}
			sum.Compute += p.Size.Compute
			sum.Memory += p.Size.Memory
		}
		if sum != (capacity.Size{Compute: capacity.GPUShares, Memory: capacity.GPUShares}) {
			t.Errorf("%s: its parts are %+v, not a GPU", c.Name(), sum)
		}
	}
	sum := 0
	for _, row := range sv.Supply() {
		for _, size := range row.Size {
			sum += size.Compute
		}
	}
	if sum != len(sv.GPUs)*capacity.GPUShares {
		t.Errorf("%d GPUs, parts of %d shares", len(sv.GPUs), sum)
	}
}

// printed formats rows in columns. Sizes are in compute and memory slices of
// the model ("3/4"), or in GPUs; empty states and places are left out.
func printed[T any](rows []T) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		switch r := any(r).(type) {
		case capacity.Supply:
			fmt.Fprintf(w, "%q\t%s\t", r.Pool, r.Model)
			for s, size := range r.Size {
				if size != (capacity.Size{}) {
					fmt.Fprintf(w, "%s %s\t", capacity.State(s), inSlices(size, r.Model))
				}
			}
		case capacity.Pending:
			fmt.Fprintf(w, "%q\t%s\t%d pods\t%.2f GPUs, %.2f of memory\treadable %v", r.Reason, r.Shape,
				r.Pods, r.Size.GPUs(), float64(r.Size.Memory)/capacity.GPUShares, r.Readable)
		case capacity.Loss:
			fmt.Fprintf(w, "%s\t%s\t%s\t%s", r.Cause, r.Pool, r.Model, inSlices(r.Size, r.Model))
		case capacity.Row:
			fmt.Fprintf(w, "%s\t%q\t", r.Pool, r.Namespace)
			for p, v := range r.Time {
				if v != 0 {
					fmt.Fprintf(w, "%s %.2f\t", capacity.Place(p), hours(v))
				}
			}
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return regexp.MustCompile(` +\n`).ReplaceAllString(b.String(), "\n")
}

// inSlices prints a size in slices; parts of shared GPUs may be fractions.
func inSlices(size capacity.Size, model string) string {
	compute, memory := 7, 8
	if t, ok := mig.ForModel(model); ok {
		compute, memory = t.ComputeSlices(), t.MemorySlices()
	}
	return fmt.Sprintf("%.4g/%.4g", float64(size.Compute*compute)/capacity.GPUShares, float64(size.Memory*memory)/capacity.GPUShares)
}
