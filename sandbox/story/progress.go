package story

import (
	"fmt"
	"time"
)

// Read gives the present value of a measure, and false while it is unknown.
type Read func(measure string) (float64, bool)

// Progress follows a story's expectations. It knows no clock.
type Progress struct {
	expect []Expectation
	always []Expectation
	next   int
	since  time.Duration
	failed error
}

// NewProgress starts at time 0 with the first expectation.
func NewProgress(s Story) *Progress { return &Progress{expect: s.Expect, always: s.Always} }

// Observe looks at the world at a time after the start and returns the
// expectations that were met now. Several may be met at once, in their order.
// Once one has failed nothing is met any more; see Err.
func (p *Progress) Observe(at time.Duration, read Read) (met []Expectation) {
	if p.failed != nil {
		return nil
	}
	for _, e := range p.always {
		if holds, known := e.holds(read); known && !holds {
			p.failed = fmt.Errorf("at %s: always %s: %s", at.Round(time.Second), e, e.now(read))
			return nil
		}
	}
	for p.next < len(p.expect) {
		e := p.expect[p.next]
		if holds, _ := e.holds(read); holds {
			met = append(met, e)
			p.next, p.since = p.next+1, at
			continue
		}
		if at-p.since > e.Within {
			p.failed = fmt.Errorf("at %s: not within %s: %s: %s", at.Round(time.Second), e.Within, e, e.now(read))
		}
		break
	}
	return met
}

// Done says whether all expectations have been met.
func (p *Progress) Done() bool { return p.failed == nil && p.next == len(p.expect) }

// Met is how many expectations have been met.
func (p *Progress) Met() int { return p.next }

// Err is the first expectation that failed; nil while none has.
func (p *Progress) Err() error { return p.failed }

// holds is true when all conditions do; known is false when that cannot be
// told because a measure is missing.
func (e Expectation) holds(read Read) (holds, known bool) {
	holds, known = true, true
	for _, c := range e.All {
		v, ok := read(c.Measure)
		if !ok {
			holds, known = false, false
			continue
		}
		if !c.true(v) {
			return false, true
		}
	}
	return holds, known
}

func (c Condition) true(v float64) bool {
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

// now says what the measures are, for a message.
func (e Expectation) now(read Read) string {
	text := ""
	for i, c := range e.All {
		if i > 0 {
			text += ", "
		}
		if v, ok := read(c.Measure); ok {
			text += fmt.Sprintf("%s is %g, want %s %g", c.Measure, v, c.Op, c.Number)
		} else {
			text += fmt.Sprintf("%s is unknown, want %s %g", c.Measure, c.Op, c.Number)
		}
	}
	return text
}
