package scenario

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/plan"
)

// Parse reads a text that describes a snapshot and, where it has a policy line,
// a policy (DefaultPolicy otherwise). Verbs that act (plan, settle, a tick that
// advances time) are errors: Run is for those. The error joins all problems,
// each with its line.
func Parse(text string) (plan.Snapshot, plan.Policy, error) {
	w := NewWorld()
	statements, err := split(text)
	if err != nil {
		return plan.Snapshot{}, w.Policy, err
	}
	var errs []error
	for _, s := range statements {
		if s.verb == "plan" || s.verb == "settle" || s.verb == "tick" && len(s.words) > 0 {
			errs = append(errs, fmt.Errorf("line %d: %s has no place in a snapshot", s.line, s.verb))
			continue
		}
		if _, err := w.do(s); err != nil {
			errs = append(errs, fmt.Errorf("line %d: %s: %w", s.line, s.verb, err))
		}
	}
	return w.Sim.Snapshot(), w.Policy, errors.Join(errs...)
}

// Script removes the answers from a scenario test file, without changing line
// numbers: what is between a line "----" and the next blank one. It reports
// whether the rest acts, which is for Run and not for Parse.
func Script(text string) (script string, acts bool) {
	lines := strings.Split(text, "\n")
	answer := false
	for i, line := range lines {
		blank := strings.TrimSpace(line) == ""
		answer = (answer || line == "----") && !blank
		if answer {
			lines[i] = ""
			continue
		}
		verb, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		acts = acts || verb == "plan" || verb == "settle"
	}
	return strings.Join(lines, "\n"), acts
}

// Run executes a whole text in a new world and returns the output of its verbs.
// It stops at the first error, which names the line.
func Run(text string) (string, error) { return NewWorld().Exec(text) }
