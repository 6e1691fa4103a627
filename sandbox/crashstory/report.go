package crashstory

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict on one run.
type Verdict string

// Verdicts.
const (
	Passed Verdict = "passed"
	Failed Verdict = "failed"
	NotMet Verdict = "not met" // the call was not made in that run, so nothing is known
)

// Trial is one run of the story with one fault.
type Trial struct {
	N     int // of the call in the clean run, from 1; 0 for a fault of every call
	What  string
	Fault Fault
	Verdict
	Why []string // of one that failed
}

// Judge compares a run with the clean one.
func Judge(golden, end State, fired int, err error) (Verdict, []string) {
	if err != nil {
		return Failed, []string{err.Error()}
	}
	if diff := golden.Diff(end); len(diff) > 0 {
		return Failed, diff
	}
	if fired == 0 {
		return NotMet, nil
	}
	return Passed, nil
}

// Only is how a trial is asked for on the command line.
func (t Trial) Only() string { return fmt.Sprintf("%s:%s", t.What, t.Fault) }

// Kills lists the trials of a clean run: each call, killed before and after it.
// An attempt that the API server refused and the next one are one call. A call
// that only publishes comes as often as the clock determines, and is tried once for
// each kind.
func Kills(clean []Note) []Trial {
	var out []Trial
	refused := map[Call]bool{}
	for i, n := range clean {
		again := refused[n.Call]
		refused[n.Call] = n.Status >= 300
		if again || n.Published() && n.Nth > 1 {
			continue
		}
		for _, f := range []Fault{KillBefore, KillAfter} {
			out = append(out, Trial{N: i + 1, What: n.ID(), Fault: f})
		}
	}
	return out
}

// Page is docs/internals/crash-story.md with these results: what follows the heading of the story
// is written again.
func Page(page string, golden State, trials []Trial) string {
	var b strings.Builder
	head, _, _ := strings.Cut(page, storyHeading)
	b.WriteString(head + storyHeading)
	for _, s := range theStory() {
		fmt.Fprintf(&b, "1. %s\n", s.name)
	}
	b.WriteString("\nEffects of the clean run:\n\n")
	for _, line := range golden {
		if after, ok := strings.CutPrefix(line, "done: "); ok {
			fmt.Fprintf(&b, "- %s\n", after)
		}
	}
	count := map[Verdict]int{}
	for _, t := range trials {
		count[t.Verdict]++
	}
	fmt.Fprintf(&b, "\n## The runs\n\n%d runs: %d passed, %d failed, %d not met.\n", len(trials), count[Passed], count[Failed], count[NotMet])
	b.WriteString("\n| call | verdicts |\n|---|---|\n")
	for i, n := 0, 0; i < len(trials); i = n {
		for n = i; n < len(trials) && trials[n].What == trials[i].What; n++ {
		}
		fmt.Fprintf(&b, "| %s | %s |\n", trials[i].What, verdicts(trials[i:n]))
	}
	return b.String()
}

const storyHeading = "\n## The story\n\n"

// verdicts of the trials of one call: the faults after each verdict.
func verdicts(trials []Trial) string {
	var out []string
	for _, v := range []Verdict{Passed, NotMet} {
		var faults []string
		for _, t := range trials {
			if t.Verdict == v {
				faults = append(faults, string(t.Fault))
			}
		}
		if len(faults) > 0 {
			out = append(out, string(v)+": "+strings.Join(faults, ", "))
		}
	}
	for _, t := range trials {
		if t.Verdict == Failed {
			out = append(out, fmt.Sprintf("**failed**: %s: %s", t.Fault, strings.Join(t.Why[:min(3, len(t.Why))], "; ")))
		}
	}
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(strings.Join(out, "; "))
}

// sorted puts trials into an order that does not change with the clock: by what
// was called, since the order of some calls does.
func sorted(trials []Trial) []Trial {
	out := slices.Clone(trials)
	slices.SortStableFunc(out, func(a, b Trial) int {
		return strings.Compare(a.Only(), b.Only())
	})
	return out
}
