package mig

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NewLayout returns the placements as a Layout, sorted; ps is not changed.
func NewLayout(ps ...Placement) Layout {
	l := Layout(slices.Clone(ps))
	slices.SortFunc(l, Placement.Compare)
	return l
}

// Compare orders layouts by their first placement that differs. A layout comes before those
// that begin with it.
func (l Layout) Compare(m Layout) int { return slices.CompareFunc(l, m, Placement.Compare) }

// Equal reports whether both have the same instances at the same places.
func (l Layout) Equal(m Layout) bool { return slices.Equal(l, m) }

// String returns the layout in slices, without a table: "3g@0:4 1g@4:1"; "empty"
// for none. Table.Format has the driver's names.
func (l Layout) String() string {
	return l.join(Placement.String)
}

// Format returns the layout with the product's names: "3g.40gb@0 1g.10gb@4";
// "empty" for none.
func (t *Table) Format(l Layout) string {
	return l.join(func(p Placement) string { return t.Name(p.Profile) + "@" + strconv.Itoa(p.Start) })
}

func (l Layout) join(word func(Placement) string) string {
	if len(l) == 0 {
		return "empty"
	}
	words := make([]string, len(l))
	for i, p := range l {
		words[i] = word(p)
	}
	return strings.Join(words, " ")
}

// ParseLayout reads a layout of product t and checks that it is legal. Instances
// are separated by blanks, in any order, each a profile, "@" and its first
// memory slice: "3g.40gb@0", "3g@0" (least memory), "3g@0:4" (memory slices).
// "" and "empty" are the empty layout.
func ParseLayout(t *Table, s string) (Layout, error) {
	l, err := parseEach(s, func(word string) (Placement, error) { return parsePlacement(t, word) })
	if err == nil {
		err = t.Legal(l)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

func parseEach(s string, placement func(word string) (Placement, error)) (Layout, error) {
	words := strings.Fields(s)
	if len(words) == 1 && words[0] == "empty" {
		words = nil
	}
	var l Layout
	for _, word := range words {
		p, err := placement(word)
		if err != nil {
			return nil, err
		}
		l = append(l, p)
	}
	slices.SortFunc(l, Placement.Compare)
	return l, nil
}

func parsePlacement(t *Table, word string) (Placement, error) {
	if strings.Contains(word, ":") {
		p, err := parseSlices(word)
		if err == nil && !t.Has(p.Profile) {
			err = fmt.Errorf("MIG placement %q: %s has no such profile", word, t.model)
		}
		return p, err
	}
	name, at, ok := strings.Cut(word, "@")
	if !ok {
		return Placement{}, fmt.Errorf("MIG placement %q: want profile@start, as in 3g.40gb@0", word)
	}
	start, err := parseSlice(word, at)
	if err != nil {
		return Placement{}, err
	}
	p, err := t.Lookup(name)
	return Placement{Profile: p, Start: start}, err
}

// parseSlice reads the start of a placement.
func parseSlice(word, at string) (int, error) {
	start, err := strconv.ParseUint(at, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("MIG placement %q: the start is not a memory slice", word)
	}
	return int(start), nil
}

// Legal returns why a GPU cannot have this layout, nil where it can: an unknown
// profile or start, an overlap, too many of a profile, too many compute slices or
// media engines.
func (t *Table) Legal(l Layout) error {
	var s state
	for _, p := range l {
		e, ok := t.find(p.Profile)
		if !ok {
			return fmt.Errorf("%s: %s has no such profile", p, t.model)
		}
		if !slices.Contains(e.starts, p.Start) {
			return fmt.Errorf("%s: an instance of %s may start at %v", p, e.name, e.starts)
		}
		if s.taken&mask(p.Start, e.Memory) != 0 {
			return fmt.Errorf("%s: overlaps another instance", p)
		}
		s = s.with(&e, p.Start)
		switch {
		case s.compute > t.compute:
			return fmt.Errorf("%s: takes compute slice %d of %d", p, s.compute, t.compute)
		case s.media > t.media:
			return fmt.Errorf("%s: takes media engine %d of %d", p, s.media, t.media)
		}
		if l.Count(p.Profile) > e.max {
			return fmt.Errorf("%s: a GPU has at most %d of %s", p, e.max, e.name)
		}
	}
	return nil
}

// Free returns every single placement that can be added to l, sorted by start
// and profile. l must be legal.
func (t *Table) Free(l Layout) []Placement {
	s := t.stateOf(l)
	var free []Placement
	for k := range t.entries {
		e := &t.entries[k]
		for i, start := range e.starts {
			if t.fits(s, e, e.masks[i]) && l.Count(e.Profile) < e.max {
				free = append(free, Placement{Profile: e.Profile, Start: start})
			}
		}
	}
	slices.SortFunc(free, Placement.Compare)
	return free
}

// ParseSlices reads what Layout.String prints ("3g@0:4 1g@4:1", "empty"). It needs
// no table, so that a recorded layout can be read for an unknown product. It checks
// that the memory slices exist and do not overlap; Table.Legal checks whether a
// product can have the layout.
func ParseSlices(s string) (Layout, error) {
	taken := uint16(0)
	return parseEach(s, func(word string) (Placement, error) {
		p, err := parseSlices(word)
		m := mask(p.Start, p.Profile.Memory)
		if err == nil && (m == 0 || taken&m != 0) {
			err = fmt.Errorf("MIG placement %q: its memory slices are beyond the GPU or overlap another instance", word)
		}
		taken |= m
		return p, err
	})
}

func parseSlices(word string) (Placement, error) {
	name, at, _ := strings.Cut(word, "@")
	at, size, sized := strings.Cut(at, ":")
	if !sized {
		return Placement{}, fmt.Errorf("MIG placement %q: want profile@start:size in slices, as in 3g@0:4", word)
	}
	n, err := ParseName(name)
	switch {
	case err != nil:
		return Placement{}, err
	case n.GB != 0 || n.Compute > maxSlices:
		return Placement{}, fmt.Errorf("MIG placement %q: want 1 … %d compute slices and no memory in gb, as in 3g@0:4", word, maxSlices)
	}
	start, err := parseSlice(word, at)
	if err != nil {
		return Placement{}, err
	}
	memory, err := strconv.ParseUint(size, 10, 8)
	if err != nil {
		return Placement{}, fmt.Errorf("MIG placement %q: the size is not a number of memory slices", word)
	}
	return Placement{Profile: Profile{Compute: n.Compute, Memory: int(memory), Attrs: n.Attrs}, Start: start}, nil
}

// SameProfile reports whether two names can be two drivers' spellings of one
// profile of one product: compute slices and attributes agree, and memory within
// a tenth or 1 GB. No product has two profiles that are this close.
func SameProfile(a, b string) bool {
	m, errA := ParseName(a)
	n, errB := ParseName(b)
	if errA != nil || errB != nil {
		return a == b
	}
	return m.Compute == n.Compute && m.Attrs == n.Attrs && distance(m.GB, n.GB) <= max(1, max(m.GB, n.GB)/10)
}

// Step is one create or destroy on a GPU. Steps are applied in order.
type Step struct {
	Create bool // false: destroy
	Placement
}

// String returns "create 3g@0:4" or "destroy 1g@4:1".
func (s Step) String() string {
	if s.Create {
		return "create " + s.Placement.String()
	}
	return "destroy " + s.Placement.String()
}

// Diff returns the steps from one layout to another. Instances in both are left
// alone. Destroys come first, by start; then creates, the largest first, so that
// an actuator that chooses placements by itself finds them. busy reports the
// instances of from that must stay; nil is none. The error names a busy one that
// would be destroyed.
func Diff(from, to Layout, busy func(Placement) bool) ([]Step, error) {
	var steps []Step
	for _, p := range sub(from, to) {
		if busy != nil && busy(p) {
			return nil, fmt.Errorf("%s is busy and has no place in %s", p, to)
		}
		steps = append(steps, Step{Placement: p})
	}
	creates := sub(to, from)
	slices.SortStableFunc(creates, func(a, b Placement) int { return cmp.Compare(b.Profile.Memory, a.Profile.Memory) })
	for _, p := range creates {
		steps = append(steps, Step{Create: true, Placement: p})
	}
	return steps, nil
}

// sub returns the placements of l that m does not have, sorted.
func sub(l, m Layout) []Placement {
	var left []Placement
	for _, p := range l {
		if !slices.Contains(m, p) {
			left = append(left, p)
		}
	}
	slices.SortFunc(left, Placement.Compare)
	return left
}
