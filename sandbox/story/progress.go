package story

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Measures are the names that a condition may use. The sandbox measures their values.
func Measures() []string {
	return []string{
		"queue",          // requests waiting
		"rate",           // requests a second, traffic time
		"left",           // requests of the trace that have not arrived or are not done
		"replicas",       // of the Deployment that serves the model
		"ready_replicas", //
		"pending_pods",   // GPU pods without a node
		"repartitions",   // changes of layout that succeeded
		"repartitions_begun",
		"scale_ups",   // nodes added
		"scale_downs", // nodes removed
		"nodes",       // GPU nodes of the pools
		"nodes_ready",
		"exporters",         // exporter processes that Prometheus sees up
		"wrong_scale_downs", // nodes removed while they had pods or pods were pending
		"lost_requests",
	}
}

// Condition compares one measure with a number; in a file: "queue > 16".
type Condition struct {
	Measure string
	Op      string // == != < <= > >=
	Number  float64
}

// UnmarshalYAML reads "measure op number".
func (c *Condition) UnmarshalYAML(n *yaml.Node) error {
	words := append(strings.Fields(n.Value), "", "", "")
	number, err := strconv.ParseFloat(words[2], 64)
	*c = Condition{words[0], words[1], number}
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) || words[3] != "" || !slices.Contains(Measures(), c.Measure) ||
		!slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, c.Op) {
		return &yaml.TypeError{Errors: []string{fmt.Sprintf(
			"line %d: %q is not: measure op number; measures are %s", n.Line, n.Value, strings.Join(Measures(), ", "))}}
	}
	return nil
}

func (c Condition) String() string { return fmt.Sprintf("%s %s %g", c.Measure, c.Op, c.Number) }

func (c Condition) holds(v float64) bool {
	switch c.Op {
	case "==":
		return v == c.Number
	case "!=":
		return v != c.Number
	case "<":
		return v < c.Number
	case "<=":
		return v <= c.Number
	case ">":
		return v > c.Number
	}
	return v >= c.Number
}

// now is the current value of the measure, for a message.
func (c Condition) now(read Read) string {
	if v, ok := read(c.Measure); ok {
		return fmt.Sprintf("%s is %g, want %s %g", c.Measure, v, c.Op, c.Number)
	}
	return fmt.Sprintf("%s is unknown, want %s %g", c.Measure, c.Op, c.Number)
}

// Expectation is a list of conditions that must all be true at the same time.
type Expectation struct {
	Name   string        `yaml:"name"` // empty: its conditions are the name
	All    []Condition   `yaml:"all"`
	Within time.Duration `yaml:"within"` // time since the previous expectation was met
}

func (e Expectation) String() string {
	if e.Name != "" {
		return e.Name
	}
	return e.each(Condition.String, " and ")
}

func (e Expectation) each(text func(Condition) string, separator string) string {
	var out []string
	for _, c := range e.All {
		out = append(out, text(c))
	}
	return strings.Join(out, separator)
}

// Read returns the current value of a measure, and false if it is unknown.
type Read func(measure string) (float64, bool)

// Progress checks a story's expectations one after the other. It has no clock.
type Progress struct {
	story  Story
	met    int
	since  time.Duration // when the last one was met
	failed error
}

// NewProgress starts at time 0 with the first expectation.
func NewProgress(s Story) *Progress { return &Progress{story: s} }

// Observe checks the world at a time since the start and returns the expectations that are met now. Several
// can be met at once, in their order. After a failure no more are met; see Err. An unknown measure neither
// meets an expectation nor violates an "always" condition.
func (p *Progress) Observe(at time.Duration, read Read) (met []Expectation) {
	if p.failed != nil {
		return nil
	}
	for _, c := range p.story.Always {
		if v, known := read(c.Measure); known && !c.holds(v) {
			p.failed = fmt.Errorf("at %s: always %s: %s", at.Round(time.Second), c, c.now(read))
			return nil
		}
	}
	for ; p.met < len(p.story.Expect); p.met, p.since = p.met+1, at {
		e := p.story.Expect[p.met]
		if slices.ContainsFunc(e.All, func(c Condition) bool { v, known := read(c.Measure); return !known || !c.holds(v) }) {
			if at-p.since > e.Within {
				now := e.each(func(c Condition) string { return c.now(read) }, ", ")
				p.failed = fmt.Errorf("at %s: not within %s: %s: %s", at.Round(time.Second), e.Within, e, now)
			}
			break
		}
		met = append(met, e)
	}
	return met
}

// Done reports whether all expectations have been met.
func (p *Progress) Done() bool { return p.failed == nil && p.met == len(p.story.Expect) }

// Err is the first expectation that failed; nil while none has.
func (p *Progress) Err() error { return p.failed }
