package mig

import (
	"fmt"
	"slices"
)

// Table is what one product can be partitioned into: its profiles, their possible
// placements, and their names. A Table is immutable and may be shared; slices it
// returns are shared too and must not be written to.
type Table struct {
	model     string
	compute   int                // compute slices of the whole GPU
	memory    int                // memory slices of the whole GPU
	media     int                // decoders of the whole GPU, 0 for no limit
	memoryMiB int                // of the whole GPU, 0 for not known
	entries   []entry            // sorted by profile
	names     map[string]Profile // drivers' spellings
	maximal   []Layout           // see Maximal
}

// entry is one profile of a table.
type entry struct {
	Profile
	name    string
	gb      int // as named
	aliases []string
	starts  []int    // first memory slices, ascending
	masks   []uint16 // memory slices taken, one mask for each of starts
	media   int      // decoders an instance takes
	max     int      // instances a GPU can have
}

// Model returns the name of the product, "H100-80GB".
func (t *Table) Model() string { return t.model }

// ComputeSlices of the whole GPU: 7, or 4 on A30 and RTX PRO 6000.
func (t *Table) ComputeSlices() int { return t.compute }

// MemorySlices of the whole GPU: 8, 4 on A30, 12 units on RTX PRO 6000.
func (t *Table) MemorySlices() int { return t.memory }

// MemoryMiB returns the memory of one instance of p, in MiB: its share of the
// GPU's memory. It is 0 where the GPU's memory is unknown or the table does not
// have p.
func (t *Table) MemoryMiB(p Profile) int {
	if _, ok := t.find(p); !ok {
		return 0
	}
	return t.memoryMiB * p.Memory / t.memory
}

// Profiles returns every profile of the product, sorted.
func (t *Table) Profiles() []Profile {
	ps := make([]Profile, len(t.entries))
	for i, e := range t.entries {
		ps[i] = e.Profile
	}
	return ps
}

// Has reports whether the product has profile p.
func (t *Table) Has(p Profile) bool {
	_, ok := t.find(p)
	return ok
}

// Name returns what the driver calls p on this product, "3g.40gb" or
// "1g.10gb+me". A profile the product does not have gives p.String().
func (t *Table) Name(p Profile) string {
	e, ok := t.find(p)
	if !ok {
		return p.String()
	}
	return e.name
}

// Names returns what drivers call p on this product, Name first; nil for a profile
// the product does not have.
func (t *Table) Names(p Profile) []string {
	e, ok := t.find(p)
	if !ok {
		return nil
	}
	return append([]string{e.name}, e.aliases...)
}

// Starts returns the memory slices at which an instance of p may begin,
// ascending; nil for a profile the product does not have.
func (t *Table) Starts(p Profile) []int {
	e, _ := t.find(p)
	return e.starts
}

// Maximal returns every layout to which nothing can be added, in a fixed order.
func (t *Table) Maximal() []Layout { return t.maximal }

func (t *Table) index(p Profile) (int, bool) {
	return slices.BinarySearchFunc(t.entries, p, func(e entry, p Profile) int { return e.Compare(p) })
}

func (t *Table) find(p Profile) (entry, bool) {
	i, ok := t.index(p)
	if !ok {
		return entry{}, false
	}
	return t.entries[i], true
}

// Spec describes a Table: what the package's own tables are made of, and what a
// node publishes for a product they do not know.
type Spec struct {
	Model         string
	ComputeSlices int // of the whole GPU, 1 … 16
	MemorySlices  int // of the whole GPU, 1 … 16
	MemoryMiB     int // of the whole GPU, 0 for not known
	// MediaEngines of the whole GPU, counted in decoders; 0 where they never
	// run out before slices do.
	MediaEngines int
	Profiles     []ProfileSpec
}

// ProfileSpec is one profile of a Spec.
type ProfileSpec struct {
	Profile
	Name    string   // "3g.40gb"
	Aliases []string // what other drivers call it: "3g.39gb"
	Starts  []int    // first memory slices, each Start + Memory ≤ MemorySlices
	Media   int      // media engines an instance takes; only where MediaEngines is set
	Max     int      // instances a GPU can have
}

// maxSlices bounds a GPU: the largest known has twelve.
const maxSlices = 16

// maxLayouts bounds the maximal layouts of a table. The richest product known
// has some hundreds; a table beyond this was not read from a GPU.
const maxLayouts = 20000

// NewTable checks a Spec and builds its Table. The error names the profile that
// is wrong.
func NewTable(s Spec) (*Table, error) {
	if s.Model == "" {
		return nil, fmt.Errorf("MIG table: no model name")
	}
	if s.ComputeSlices < 1 || s.ComputeSlices > maxSlices || s.MemorySlices < 1 || s.MemorySlices > maxSlices || s.MemoryMiB < 0 {
		return nil, fmt.Errorf("MIG table of %s: %d compute slices, %d memory slices, %d MiB: want 1 … %d, 1 … %d, 0 or more",
			s.Model, s.ComputeSlices, s.MemorySlices, s.MemoryMiB, maxSlices, maxSlices)
	}
	t := &Table{
		model: s.Model, compute: s.ComputeSlices, memory: s.MemorySlices, media: s.MediaEngines, memoryMiB: s.MemoryMiB, names: map[string]Profile{},
	}
	for _, ps := range s.Profiles {
		e, err := newEntry(s, ps)
		if err != nil {
			return nil, fmt.Errorf("MIG table of %s: profile %q: %w", s.Model, ps.Name, err)
		}
		names := append([]string{e.name}, e.aliases...)
		for _, name := range names {
			if _, taken := t.names[name]; taken {
				return nil, fmt.Errorf("MIG table of %s: two profiles are called %q", s.Model, name)
			}
		}
		for _, name := range names {
			t.names[name] = e.Profile
		}
		t.entries = append(t.entries, e)
	}
	slices.SortFunc(t.entries, func(a, b entry) int { return a.Compare(b.Profile) })
	for i := 1; i < len(t.entries); i++ {
		if t.entries[i].Profile == t.entries[i-1].Profile {
			return nil, fmt.Errorf("MIG table of %s: %q and %q are the same profile", s.Model, t.entries[i-1].name, t.entries[i].name)
		}
	}
	var ok bool
	if t.maximal, ok = t.maximalLayouts(maxLayouts); !ok {
		return nil, fmt.Errorf("MIG table of %s: more than %d layouts", s.Model, maxLayouts)
	}
	return t, nil
}

func newEntry(s Spec, ps ProfileSpec) (entry, error) {
	n, err := ParseName(ps.Name)
	switch {
	case err != nil:
		return entry{}, err
	case n.GB == 0:
		return entry{}, fmt.Errorf("the name has no memory")
	case n.Compute != ps.Compute || n.Attrs != ps.Attrs:
		return entry{}, fmt.Errorf("the name does not match %s", ps.Profile)
	case ps.Compute < 1 || ps.Compute > s.ComputeSlices || ps.Memory < 1 || ps.Memory > s.MemorySlices:
		return entry{}, fmt.Errorf("%d compute and %d memory slices do not fit the GPU", ps.Compute, ps.Memory)
	case ps.Max < 1:
		return entry{}, fmt.Errorf("max %d: want 1 or more", ps.Max)
	case ps.Media < 0 || ps.Media > s.MediaEngines:
		return entry{}, fmt.Errorf("%d media engines of %d", ps.Media, s.MediaEngines)
	case len(ps.Starts) == 0:
		return entry{}, fmt.Errorf("no starts")
	}
	e := entry{Profile: ps.Profile, name: n.String(), gb: n.GB, media: ps.Media, max: ps.Max}
	for _, alias := range ps.Aliases {
		a, err := ParseName(alias)
		if err != nil {
			return entry{}, err
		}
		e.aliases = append(e.aliases, a.String())
	}
	e.starts = slices.Clone(ps.Starts)
	slices.Sort(e.starts)
	e.starts = slices.Clip(slices.Compact(e.starts))
	for _, start := range e.starts {
		if start < 0 || start+ps.Memory > s.MemorySlices {
			return entry{}, fmt.Errorf("start %d with %d memory slices does not fit %d", start, ps.Memory, s.MemorySlices)
		}
		e.masks = append(e.masks, mask(start, ps.Memory))
	}
	return e, nil
}

// mask has one bit for each of size memory slices from start.
func mask(start, size int) uint16 {
	if start < 0 || size < 1 || start+size > maxSlices {
		return 0
	}
	return uint16((1<<size - 1) << start)
}
