package crashstory

import "fmt"

// Trial is one run of the story with one fault.
type Trial struct {
	N     int // of the call in the clean run, from 1; 0 for a fault of every call
	What  string
	Fault Fault
}

// Only is how a trial is asked for on the command line.
func (t Trial) Only() string { return fmt.Sprintf("%s:%s", t.What, t.Fault) }

// kills lists the trials of a clean run: each call, killed before and after it.
// An attempt that the API server refused and the next one are one call. A call
// that only publishes comes as often as the clock determines, and is tried once for
// each kind.
func kills(clean []Note) []Trial {
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
