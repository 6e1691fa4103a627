package crashstory

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var (
	only = flag.String("only", "", `one trial of TestCrashStory: "create nodes mig-1 #1:after"`)
	all  = flag.Bool("all", false, "all trials of TestCrashStory")
)

func TestCrashStory(t *testing.T) {
	if !*all && *only == "" {
		t.Skip("make test-all and make crash-story play it, with -all; -only plays one kill")
	}
	b := shared.Get(t)
	golden, clean := cleanRun(t, b)
	r := newTestReplica(t, b, "crash", false)
	t.Logf("the clean run made %d calls and ended with\n%s", len(clean), strings.Join(golden, "\n"))
	trials := chosen(t, clean)
	for i, trial := range trials {
		begun := time.Now()
		end, notes, err := b.Play(t.Context(), r, trial.faults(clean))
		verdict, diff := "passed", golden.Diff(end)
		switch {
		case err != nil || len(diff) > 0:
			verdict = "failed"
		case len(r.Fired()) == 0:
			verdict = "not met" // the call was not made in that run, so nothing is known
		}
		t.Logf("%d/%d %s: %s (%s)", i+1, len(trials), trial.Only(), verdict, time.Since(begun).Round(100*time.Millisecond))
		if verdict == "failed" {
			t.Errorf("%s: failed: %v\n%s", trial.Only(), err, strings.Join(diff, "\n"))
			for _, line := range b.view.departures() {
				t.Log(line)
			}
			for _, n := range notes {
				if !n.Published() {
					t.Log(n.ID(), n.Status)
				}
			}
		}
		if t.Context().Err() != nil {
			t.Fatal("out of time")
		}
	}
}

// faults of a trial.
func (t Trial) faults(clean []Note) Faults {
	if t.N == 0 {
		return every(t.Fault)
	}
	return at(clean[t.N-1], t.Fault)
}

// everyCall are the trials in which each call meets the fault once.
func everyCall() []Trial {
	var out []Trial
	for _, f := range []Fault{Lost, Error500, Error409, Error429} {
		out = append(out, Trial{What: "every call", Fault: f})
	}
	return out
}

// chosen are all trials, or the one asked for.
func chosen(t *testing.T, clean []Note) []Trial {
	t.Helper()
	every := append(kills(clean), everyCall()...)
	if *only == "" {
		return every
	}
	for _, trial := range every {
		if trial.Only() == *only {
			return []Trial{trial}
		}
	}
	t.Fatalf("-only %q: no such call in the clean run", *only)
	return nil
}
