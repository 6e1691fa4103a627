package crashstory

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/testall"
)

var (
	only   = flag.String("only", "", `one trial of TestCrashStory: "create nodes mig-1 #1:after"`)
	all    = flag.Bool("all", testall.Enabled(), "all trials, not a sample; make test-all has it on")
	update = flag.Bool("update", false, "write docs/internals/crash-story.md, with -all")
	seed   = flag.Uint64("seed", 1, "of the sample")
)

// sampled is how many kills are tried without -all.
const sampled = 1

func TestCrashStory(t *testing.T) {
	b := shared.Get(t)
	golden, clean := cleanRun(t, b)
	r := newTestReplica(t, b, "crash", false)
	t.Logf("the clean run made %d calls and ended with\n%s", len(clean), strings.Join(golden, "\n"))
	trials := chosen(t, clean)
	for i := range trials {
		trial := &trials[i]
		try := func() {
			begun := time.Now()
			end, notes, err := b.Play(t.Context(), r, trial.faults(clean))
			trial.Verdict, trial.Why = Judge(golden, end, len(r.Fired()), err)
			t.Logf("%d/%d %s: %s (%s)", i+1, len(trials), trial.Only(), trial.Verdict, time.Since(begun).Round(100*time.Millisecond))
			if trial.Verdict == Failed {
				t.Logf("%s: failed:\n%s", trial.Only(), strings.Join(trial.Why, "\n"))
				explain(t, b, notes)
			}
		}
		try()
		// About one run in a hundred has ended otherwise without the fault being the
		// reason. The page counts such a run; a sample, which asks whether this kill
		// does harm, plays it again.
		if trial.Verdict == Failed && !*all {
			try()
		}
		if trial.Verdict == Failed {
			t.Errorf("%s: failed", trial.Only())
		}
		if t.Context().Err() != nil {
			t.Fatal("out of time")
		}
	}
	if *all && *update {
		file := filepath.Join(b.Root, "docs/internals/crash-story.md")
		if err := os.WriteFile(file, []byte(Page(golden, sorted(trials))), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// explain what was seen in a run that did not hold.
func explain(t *testing.T, b *Env, notes []Note) {
	t.Helper()
	for _, line := range b.view.departures() {
		t.Log(line)
	}
	for _, n := range notes {
		if !n.Published() {
			t.Log(n.ID(), n.Status)
		}
	}
}

// faults of a trial.
func (t Trial) faults(clean []Note) Faults {
	if t.N == 0 {
		return Every(t.Fault)
	}
	return At(clean[t.N-1], t.Fault)
}

// everyCall are the trials in which each call meets the fault once.
func everyCall() []Trial {
	var out []Trial
	for _, f := range []Fault{Lost, Error500, Error409, Error429} {
		out = append(out, Trial{What: "every call", Fault: f})
	}
	return out
}

// chosen are all trials, the one asked for, or a sample that is spread over the
// kinds of calls.
func chosen(t *testing.T, clean []Note) []Trial {
	t.Helper()
	kills := Kills(clean)
	every := append(slices.Clone(kills), everyCall()...)
	if *only != "" {
		for _, trial := range every {
			if trial.Only() == *only {
				return []Trial{trial}
			}
		}
		t.Fatalf("-only %q: no such call in the clean run", *only)
	}
	if *all {
		return every
	}
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(kills), func(i, j int) { kills[i], kills[j] = kills[j], kills[i] })
	var out []Trial
	kinds := map[string]int{}
	for n := 1; len(out) < sampled && n <= sampled; n++ {
		for _, trial := range kills {
			verb, rest, _ := strings.Cut(trial.What, " ")
			resource, _, _ := strings.Cut(rest, " ")
			if kind := verb + resource; kinds[kind] < n && len(out) < sampled {
				kinds[kind]++
				out = append(out, trial)
			}
		}
	}
	return out
}
