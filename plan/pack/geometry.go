package pack

import (
	"fmt"
	"slices"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Geometry is all states of one MIG product, numbered, with what can be added
// to each: packing a GPU is looking up numbers. Layouts that take the same
// slices are one state, since what can be added depends on nothing else;
// instances with attributes are limited in number, so they count too. A
// Geometry is immutable and may be shared.
type Geometry struct {
	table    *mig.Table
	profiles []mig.Profile
	index    map[mig.Profile]int
	states   []geometryState
	of       map[takenSlices]int
	full     int // the state of a GPU that one pod has alone
}

// takenSlices are the slices that a layout takes of a GPU.
type takenSlices struct {
	memory  uint64 // one bit each
	compute int
	attrs   string // the profiles with attributes among them, one byte each
}

// geometryState is one state. The empty GPU is state 0.
type geometryState struct {
	compute int      // free slices
	steps   [][]Step // by profile
	most    []int    // by profile: how many could be added, if nothing else were
}

// Step is the addition of one instance.
type Step struct {
	Start int // first memory slice
	To    int // the state that follows
}

// NewGeometry computes the states of t.
func NewGeometry(t *mig.Table) *Geometry {
	c := &Geometry{table: t, profiles: t.Profiles(), index: map[mig.Profile]int{}, of: map[takenSlices]int{}}
	for i, p := range c.profiles {
		c.index[p] = i
	}
	layouts := []mig.Layout{nil}
	c.of[takenSlices{}] = 0
	for id := 0; id < len(layouts); id++ {
		s := geometryState{compute: t.ComputeSlices() - c.taken(layouts[id]).compute, steps: make([][]Step, len(c.profiles))}
		for _, p := range t.Free(layouts[id]) {
			next := mig.NewLayout(append(layouts[id][:len(layouts[id]):len(layouts[id])], p)...)
			key := c.taken(next)
			to, known := c.of[key]
			if !known {
				to = len(layouts)
				c.of[key] = to
				layouts = append(layouts, next)
			}
			k := c.index[p.Profile]
			s.steps[k] = append(s.steps[k], Step{p.Start, to})
		}
		c.states = append(c.states, s)
	}
	c.full = len(c.states)
	c.states = append(c.states, geometryState{steps: make([][]Step, len(c.profiles))})
	for id := range c.states {
		c.count(id)
	}
	return c
}

// taken returns the slices that l takes.
func (c *Geometry) taken(l mig.Layout) takenSlices {
	var s takenSlices
	var attrs []byte
	for _, p := range l {
		s.memory |= mask(p)
		s.compute += p.Profile.Compute
		if p.Profile.Attrs != 0 {
			attrs = append(attrs, byte(c.index[p.Profile]))
		}
	}
	slices.Sort(attrs)
	s.attrs = string(attrs)
	return s
}

// count fills in most of a state and of those that follow.
func (c *Geometry) count(id int) []int {
	s := &c.states[id]
	if s.most == nil {
		s.most = make([]int, len(c.profiles))
		for k, steps := range s.steps {
			for _, step := range steps {
				s.most[k] = max(s.most[k], 1+c.count(step.To)[k])
			}
		}
	}
	return s.most
}

// Table returns the product's table.
func (c *Geometry) Table() *mig.Table { return c.table }

// States returns the number of states; they are numbered from 0, the empty GPU.
func (c *Geometry) States() int { return len(c.states) }

// State returns the number of a layout's state; an error for an illegal layout.
func (c *Geometry) State(l mig.Layout) (int, error) {
	if err := c.table.Legal(l); err != nil {
		return 0, err
	}
	id, ok := c.of[c.taken(l)]
	if !ok {
		return 0, fmt.Errorf("layout %s cannot be reached by adding instances", c.table.Format(l))
	}
	return id, nil
}

// Steps returns where an instance of p could be added, nil for nowhere.
// Precondition: state is one of States.
func (c *Geometry) Steps(state int, p mig.Profile) []Step {
	k, ok := c.index[p]
	if !ok {
		return nil
	}
	return c.states[state].steps[k]
}

// Most returns how many instances of p could be added, if nothing else were.
func (c *Geometry) Most(state int, p mig.Profile) int {
	k, ok := c.index[p]
	if !ok {
		return 0
	}
	return c.states[state].most[k]
}

// Free returns the free compute slices, usable or not.
func (c *Geometry) Free(state int) int { return c.states[state].compute }

// thousandths is a number of compute slices in thousandths of a GPU.
func (c *Geometry) thousandths(compute int) int { return compute * Whole / c.table.ComputeSlices() }
