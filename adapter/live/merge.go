package live

import (
	"strings"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
)

// State is what became of a rule.
type State string

// States, as they stand in the metric label.
const (
	// InForce: as the file says.
	InForce State = "in_force"
	// Kept: what the file says is bad, and the last good version is in force.
	Kept State = "kept"
	// Rejected: what the file says is bad, and there has been no good one.
	Rejected State = "rejected"
)

// States returns all of them.
func States() []State { return []State{InForce, Kept, Rejected} }

// Rule is one rule and what became of it.
type Rule struct {
	Name string // "rules[3]" if the file gives it none that can be used
	Path string // where in the file; "" for a built-in rule
	Line int
	State
	Problems []string
	// InUse is what is in force; nil if Rejected.
	InUse *cache.Rule
}

// merge puts what the file declares in force, and in place of each bad rule
// the last good one of that name.
func merge(before []Rule, declared []config.Declared, backends map[string]bool) []Rule {
	good := map[string]Rule{}
	for _, r := range before {
		if r.InUse != nil && backends[backendOf(*r.InUse)] {
			good[r.Name] = r
		}
	}
	var rules []Rule
	var nameless []string
	for _, d := range declared {
		r := Rule{Name: d.Name, Path: d.Path, Line: d.Line, State: InForce, InUse: &d.Rule}
		for _, p := range d.Problems {
			r.Problems = append(r.Problems, p.Error())
		}
		if len(d.Problems) > 0 {
			r.State, r.InUse = Rejected, nil
			if old, ok := good[d.Name]; ok {
				r.State, r.InUse = Kept, old.InUse
			}
		}
		if r.Name == "" {
			r.Name = d.Path
			nameless = append(nameless, d.Path)
		}
		rules = append(rules, r)
		delete(good, d.Name)
	}
	if len(nameless) == 0 {
		return rules
	}
	// Any of the rules that are missing now may be the one whose name cannot
	// be read. They stay until it can.
	for _, old := range before {
		if _, missing := good[old.Name]; missing {
			old.State, old.Line, old.Path = Kept, 0, ""
			old.Problems = []string{"not in the file; it may be " + strings.Join(nameless, " or ") + ", whose name cannot be used"}
			rules = append(rules, old)
		}
	}
	return rules
}

func backendOf(r cache.Rule) string {
	if r.Backend == "" {
		return cache.DefaultBackend
	}
	return r.Backend
}
