package live

import (
	"cmp"
	"strings"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
)

// State of a rule of the file.
type State string

// States, as in the metric's label.
const (
	// InForce: the file's version is in force.
	InForce State = "in_force"
	// Kept: the file's version is invalid; the last good one stays in force.
	Kept State = "kept"
	// Rejected: the file's version is invalid, and there was no good one.
	Rejected State = "rejected"
)

// States returns all of them.
func States() []State { return []State{InForce, Kept, Rejected} }

// Rule is one rule and its state.
type Rule struct {
	Name string // "rules[3]" if the file gives it no valid name
	Path string // where in the file; "" for a built-in rule
	Line int
	State
	Problems []string
	// InUse is what is in force; nil if Rejected.
	InUse *cache.Rule
}

// merge returns the declared rules, each invalid one replaced by the last good
// rule of that name.
func merge(before []Rule, declared []config.Declared, backends map[string]bool) []Rule {
	good := map[string]Rule{}
	for _, r := range before {
		if r.InUse != nil && backends[cmp.Or(r.InUse.Backend, cache.DefaultBackend)] {
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
	// Any of the missing rules may be the one whose name is invalid. They stay
	// in force until every name is valid.
	for _, old := range before {
		if _, missing := good[old.Name]; missing {
			old.State, old.Line, old.Path = Kept, 0, ""
			old.Problems = []string{"not in the file; it may be " + strings.Join(nameless, " or ") + ", whose name cannot be used"}
			rules = append(rules, old)
		}
	}
	return rules
}
