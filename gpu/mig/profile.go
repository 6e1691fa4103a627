package mig

import (
	"cmp"
	"fmt"
	"strings"
)

// Attr is a set of profile attributes, as printed behind the memory size.
type Attr uint8

// Attributes of a profile.
const (
	AttrMedia    Attr = 1 << iota // +me: media engines
	AttrGraphics                  // +gfx
	AttrAllMedia                  // +me.all
	AttrNoMedia                   // -me
)

// String returns the attributes as a profile name ends in them: "", "+me",
// "+gfx", "+me.all", "-me".
func (a Attr) String() string {
	var plus []string
	if a&AttrMedia != 0 {
		plus = append(plus, "me")
	}
	if a&AttrGraphics != 0 {
		plus = append(plus, "gfx")
	}
	if a&AttrAllMedia != 0 {
		plus = append(plus, "me.all")
	}
	s := ""
	if len(plus) > 0 {
		s = "+" + strings.Join(plus, ",")
	}
	if a&AttrNoMedia != 0 {
		s += "-me"
	}
	return s
}

// Profile is a kind of GPU instance, in slices. It is comparable and is the
// key of every count of instances; its name is looked up per product.
type Profile struct {
	Compute int // compute slices, 1 … 7
	Memory  int // memory slices, 1 … 8 (12 units on RTX PRO 6000)
	Attrs   Attr
}

// Compare orders profiles by compute slices, memory slices, attributes.
func (p Profile) Compare(q Profile) int {
	return cmp.Or(cmp.Compare(p.Compute, q.Compute), cmp.Compare(p.Memory, q.Memory), cmp.Compare(p.Attrs, q.Attrs))
}

// String returns the profile in slices, without a table: "3g:4" is three compute and four memory slices, "1g+me:1" one of each with media engines.
func (p Profile) String() string { return fmt.Sprintf("%dg%s:%d", p.Compute, p.Attrs, p.Memory) }

// Placement is one instance's place on a GPU: a profile and the first memory
// slice it occupies.
type Placement struct {
	Profile Profile
	Start   int
}

// Compare orders placements by start, then profile.
func (p Placement) Compare(q Placement) int {
	return cmp.Or(cmp.Compare(p.Start, q.Start), p.Profile.Compare(q.Profile))
}

// String returns the placement as nvidia-smi counts it, start:size in memory
// slices: "3g@4:4".
func (p Placement) String() string {
	return fmt.Sprintf("%dg%s@%d:%d", p.Profile.Compute, p.Profile.Attrs, p.Start, p.Profile.Memory)
}

// Layout is the set of instances of one GPU, sorted by Start.
type Layout []Placement
