package mig

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseSlices reads what Layout.String prints ("3g@0:4 1g@4:1", "empty"). It needs
// no table, so that a recorded layout can be read for an unknown product. It checks
// that the memory slices exist and do not overlap; Table.Legal checks whether a
// product can have the layout.
func ParseSlices(s string) (Layout, error) {
	words := strings.Fields(s)
	if len(words) == 1 && words[0] == "empty" {
		words = nil
	}
	var l Layout
	taken := uint16(0)
	for _, word := range words {
		p, err := parseSlices(word)
		if err != nil {
			return nil, err
		}
		m := mask(p.Start, p.Profile.Memory)
		if m == 0 || taken&m != 0 {
			return nil, fmt.Errorf("MIG placement %q: its memory slices are beyond the GPU or overlap another instance", word)
		}
		taken |= m
		l = append(l, p)
	}
	slices.SortFunc(l, Placement.Compare)
	return l, nil
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
	start, err := strconv.ParseUint(at, 10, 8)
	if err != nil {
		return Placement{}, fmt.Errorf("MIG placement %q: the start is not a memory slice", word)
	}
	memory, err := strconv.ParseUint(size, 10, 8)
	if err != nil {
		return Placement{}, fmt.Errorf("MIG placement %q: the size is not a number of memory slices", word)
	}
	return Placement{Profile: Profile{Compute: n.Compute, Memory: int(memory), Attrs: n.Attrs}, Start: int(start)}, nil
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
