package mig

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
)

// Tables are the tables that nodes have read from their GPUs through NVML and
// published, one for each product, sorted by its name. A published table takes precedence
// over the package's own, and is the only one of an unknown product. Nil is
// "nothing published". Tables come from NewTables and are immutable.
type Tables []*Table

// NewTables builds the tables of what nodes have published, in any order. Nodes
// with different drivers may have different names for the same profile: all of
// them are accepted, the first in the alphabet is printed. The error names each
// product whose Spec is wrong, or for which nodes publish different placements. Such
// a product is left out, and the others are returned.
func NewTables(published ...Spec) (Tables, error) {
	specs := make([]Spec, len(published))
	for i, s := range published {
		s.Model = gpu.ProductName(s.Model)
		specs[i] = s
	}
	slices.SortStableFunc(specs, func(a, b Spec) int { return strings.Compare(a.String(), b.String()) })
	slices.SortStableFunc(specs, func(a, b Spec) int { return strings.Compare(a.Model, b.Model) })
	var out Tables
	var errs []error
	for len(specs) > 0 {
		n := 1
		for n < len(specs) && specs[n].Model == specs[0].Model {
			n++
		}
		t, err := oneTable(specs[:n])
		if err != nil {
			errs = append(errs, err)
		} else {
			out = append(out, t)
		}
		specs = specs[n:]
	}
	return out, errors.Join(errs...)
}

// oneTable makes one table of what several nodes publish of one product.
func oneTable(specs []Spec) (*Table, error) {
	t, err := NewTable(specs[0])
	if err != nil {
		return nil, err
	}
	merged := specs[0]
	merged.Profiles = slices.Clone(merged.Profiles)
	for _, s := range specs[1:] {
		other, err := NewTable(s)
		if err != nil {
			return nil, err
		}
		if !t.sameGeometry(other) {
			return nil, fmt.Errorf("MIG table of %s: nodes publish different placements", t.model)
		}
		for i := range merged.Profiles {
			ps := &merged.Profiles[i]
			e, _ := other.find(ps.Profile)
			for _, name := range append([]string{e.name}, e.aliases...) {
				if known, _ := t.Exact(name); known != ps.Profile && !slices.Contains(ps.Aliases, name) {
					ps.Aliases = append(slices.Clone(ps.Aliases), name)
				}
			}
		}
	}
	return NewTable(merged)
}

// sameGeometry reports whether both products can be partitioned into the same ways,
// whatever the profiles are called.
func (t *Table) sameGeometry(o *Table) bool {
	return t.compute == o.compute && t.memory == o.memory && t.media == o.media &&
		slices.EqualFunc(t.entries, o.entries, func(a, b entry) bool {
			return a.Profile == b.Profile && a.max == b.max && a.media == b.media && slices.Equal(a.starts, b.starts)
		})
}

// ForModel returns the table of a product, by its name or any spelling of it: the
// published one, else the package's own.
func (ts Tables) ForModel(name string) (*Table, bool) {
	if t, ok := ts.Published(name); ok {
		return t, true
	}
	if t, ok := tables()[name]; ok { // most names are ours, and need no parsing
		return t(), true
	}
	if t, ok := ts.Published(gpu.ProductName(name)); ok {
		return t, true
	}
	return ForModel(name)
}

// Published returns the table that nodes have published of a product, by its exact
// name.
func (ts Tables) Published(model string) (*Table, bool) {
	i, ok := slices.BinarySearchFunc(ts, model, func(t *Table, model string) int { return strings.Compare(t.model, model) })
	if !ok {
		return nil, false
	}
	return ts[i], true
}

// Model returns the model that a product label means: what gpu.ParseProductMemory
// returns, and for a product unknown to it the model of a published table. It is false for
// a product that neither knows.
func (ts Tables) Model(label string, memoryMiB int) (gpu.Model, bool) {
	if m, ok := gpu.ParseProductMemory(label, memoryMiB); ok {
		return m, true
	}
	t, ok := ts.Published(gpu.ProductName(label))
	if !ok {
		return gpu.Model{}, false
	}
	return gpu.Model{Name: t.model, Vendor: "nvidia", MemoryMiB: t.memoryMiB}, true
}

// Spec returns a Spec from which NewTable makes an equal table.
func (t *Table) Spec() Spec {
	s := Spec{Model: t.model, ComputeSlices: t.compute, MemorySlices: t.memory, MemoryMiB: t.memoryMiB, MediaEngines: t.media}
	for _, e := range t.entries {
		s.Profiles = append(s.Profiles, ProfileSpec{Profile: e.Profile, Name: e.name, Aliases: slices.Clone(e.aliases),
			Starts: slices.Clone(e.starts), Media: e.media, Max: e.max})
	}
	return s
}
