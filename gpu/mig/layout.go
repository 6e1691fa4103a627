package mig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// NewLayout returns the placements as a Layout, sorted; ps stays as it is.
func NewLayout(ps ...Placement) Layout {
	l := Layout(slices.Clone(ps))
	slices.SortFunc(l, Placement.Compare)
	return l
}

// Compare orders layouts, shorter ones and earlier starts first.
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
	words := strings.Fields(s)
	if len(words) == 1 && words[0] == "empty" {
		words = nil
	}
	var l Layout
	for _, word := range words {
		p, err := parsePlacement(t, word)
		if err != nil {
			return nil, err
		}
		l = append(l, p)
	}
	slices.SortFunc(l, Placement.Compare)
	if err := t.Legal(l); err != nil {
		return nil, err
	}
	return l, nil
}

func parsePlacement(t *Table, word string) (Placement, error) {
	name, at, ok := strings.Cut(word, "@")
	if !ok {
		return Placement{}, fmt.Errorf("MIG placement %q: want profile@start, as in 3g.40gb@0", word)
	}
	at, size, sized := strings.Cut(at, ":")
	start, err := strconv.ParseUint(at, 10, 8)
	if err != nil {
		return Placement{}, fmt.Errorf("MIG placement %q: the start is not a memory slice", word)
	}
	if !sized {
		p, err := t.Lookup(name)
		return Placement{Profile: p, Start: int(start)}, err
	}
	n, err := ParseName(name)
	if err != nil {
		return Placement{}, err
	}
	memory, err := strconv.ParseUint(size, 10, 8)
	if err != nil {
		return Placement{}, fmt.Errorf("MIG placement %q: the size is not a number of memory slices", word)
	}
	p := Profile{Compute: n.Compute, Memory: int(memory), Attrs: n.Attrs}
	if e, ok := t.find(p); !ok || n.GB != 0 && n.GB != e.gb {
		return Placement{}, fmt.Errorf("MIG placement %q: %s has no such profile", word, t.model)
	}
	return Placement{Profile: p, Start: int(start)}, nil
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
		if count(l, p.Profile) > e.max {
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
			if t.fits(s, e, e.masks[i]) && count(l, e.Profile) < e.max {
				free = append(free, Placement{Profile: e.Profile, Start: start})
			}
		}
	}
	slices.SortFunc(free, Placement.Compare)
	return free
}
