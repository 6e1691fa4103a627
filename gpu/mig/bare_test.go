package mig

import (
	"strings"
	"testing"
)

// TestParseSlices: a layout in slices is read without a table.
func TestParseSlices(t *testing.T) {
	for _, model := range Models() {
		table, _ := ForModel(model)
		for _, want := range table.Maximal() {
			if got, err := ParseSlices(want.String()); err != nil || !got.Equal(want) {
				t.Fatalf("%s: %s is read as %s: %v", model, want, got, err)
			}
		}
	}
	for text, want := range map[string]string{
		"3g.40gb@0": "want profile@start:size", "3g.40gb@0:4": "no memory in gb", "3g@0:4 1g@3:1": "another instance",
		"3g@14:4": "beyond the GPU", "3g@0:0": "beyond the GPU", "3g@-1:1": "start", "3g@0:x": "size", "g@0:1": "compute slices", "17g@0:1": "1 … 16",
	} {
		if _, err := ParseSlices(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if l, err := ParseSlices("empty"); err != nil || len(l) != 0 {
		t.Errorf("empty: %v %v", l, err)
	}
}

// TestSameProfile: all names of a profile match, and no two profiles of a
// product do.
func TestSameProfile(t *testing.T) {
	for _, model := range Models() {
		table, _ := ForModel(model)
		for i, e := range table.entries {
			for _, alias := range e.aliases {
				if !SameProfile(e.name, alias) {
					t.Errorf("%s: %s and %s are one profile", model, e.name, alias)
				}
			}
			for _, other := range table.entries[:i] {
				if SameProfile(e.name, other.name) {
					t.Errorf("%s: %s and %s are two profiles", model, e.name, other.name)
				}
			}
		}
	}
	if SameProfile("1g.10gb", "1g.10gb+me") || SameProfile("x", "y") || !SameProfile("x", "x") {
		t.Error("attributes or what is no name")
	}
}
