package scenario

import (
	"errors"
	"fmt"
	"slices"
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
		if s.verb == "plan" || s.verb == "settle" || s.verb == "tick" && len(s.words) > 0 && !s.words[0].isSet {
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

// Print writes a snapshot as scenario text. Parse of it gives an equal snapshot
// for every snapshot that passes Check: times are equal to the nanosecond and in UTC,
// empty lists are nil, and a forecast's Like has only its requests, placement rules and
// tenant.
func Print(s plan.Snapshot) string {
	var b strings.Builder
	line := func(verb, name string, write func(x *fields)) {
		b.WriteString(verb + " " + quote(name) + written(s.Now, write) + "\n")
	}
	gpus := func(of string, all []plan.GPU, template bool) {
		for _, c := range all {
			line("gpu", fmt.Sprintf("%s/%d", of, c.Index), func(x *fields) {
				if template {
					x.write("template")
				}
				gpuFields(x, &c)
			})
		}
	}
	b.WriteString("tick" + written(s.Now, func(x *fields) { tickFields(x, &s) }) + "\n")
	for _, t := range s.Tenants {
		line("quota", t.Name, func(x *fields) { quotaFields(x, &t) })
	}
	for _, p := range s.Pools {
		line("pool", p.Name, func(x *fields) {
			poolFields(x, &p)
			x.count("target", &p.Target)
			x.count("size", &p.Size)
		})
		if !alike(p.Template.GPUs) {
			gpus(p.Name, p.Template.GPUs, true)
		}
	}
	for _, n := range s.Nodes {
		line("node", n.Name, func(x *fields) {
			x.string("pool", &n.Pool)
			x.write("bare")
			nodeFields(x, &n)
		})
		gpus(n.Name, n.GPUs, false)
	}
	for _, p := range s.Pods {
		line("pod", p.Key(), func(x *fields) { podFields(x, &p) })
	}
	for _, f := range s.Forecasts {
		line("forecast", f.Name, func(x *fields) { forecastFields(x, &f) })
	}
	return b.String()
}

// LineOf returns the number of a text's last line about a subject, from 1: by the verb that
// declares it, such as "pod", and its name, which may be one of a range. With
// an empty name it is the last line of the verb. It is 0 for none, and for an
// invalid text.
func LineOf(text, verb, name string) int {
	statements, err := split(text)
	if err != nil {
		return 0
	}
	found := 0
	for i := range statements {
		if s := &statements[i]; s.verb == verb && (name == "" || s.about(name)) {
			found = s.line
		}
	}
	return found
}

func (s *statement) about(subject string) bool {
	name, ok := s.name()
	names, err := s.names(name)
	return ok && (name == subject || err == nil && slices.Contains(names, subject))
}
