package dcgm

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Each way in which DCGM says that there is no value, and each value that is
// none, vanishes and is counted under its reason, and takes nothing with it.
func TestNoValues(t *testing.T) {
	for reason, answers := range map[string][]struct {
		field  uint16
		answer any // a number or an odd one
	}{
		collect.DropBlank: {
			{155, "!blank"}, {155, "!not_found"}, {203, "!blank"}, {203, "!not_found"},
			{203, "!int32_blank"}, {203, "!int32_not_found"}, {53, "!blank"}, {53, "!not_found"},
			{53, "!text:"}, {203, "!status:-14"},
		},
		collect.DropNotSupported: {
			{155, "!unsupported"}, {155, "!not_permitted"}, {203, "!unsupported"},
			{203, "!not_permitted"}, {203, "!int32_unsupported"}, {203, "!int32_not_permitted"},
			{53, "!unsupported"}, {53, "!not_permitted"}, {53, "!text:N/A"}, {53, "!text:[N/A]"},
			{203, "!status:-6"}, {203, "!status:-16"},
		},
		collect.DropImpossible: {
			{155, "!nan"}, {155, "!inf"}, {155, 1e31}, {155, 808334905}, {155, -1},
			{156, -5}, {203, 808334905}, {203, 101}, {204, -1}, {1001, 7},
			{250, 808334905}, {150, 808334905}, {100, 808334905}, {237, 808334905},
		},
		collect.DropError: {{203, "!status:-18"}, {155, "!status:-3"}},
	} {
		for _, a := range answers {
			t.Run(fmt.Sprint(reason, a), func(t *testing.T) {
				m := newMachine(t, 2)
				m.set(0, a.field, a.answer)
				m.set(0, 140, 45)
				m.set(1, a.field, 0.5) // which fits every field
				s := m.open(Options{}, a.field, 140)
				r := read(t, s)
				if has(r.Entities[0], a.field) || !has(r.Entities[1], a.field) {
					t.Errorf("values %+v and %+v", r.Entities[0].Values, r.Entities[1].Values)
				}
				if number(t, r.Entities[0], 140) != 45 {
					t.Error("another field suffers")
				}
				r.Dropped[collect.DropBlank]-- // field 140 of the other GPU
				for _, one := range []string{collect.DropBlank, collect.DropNotSupported, collect.DropImpossible, collect.DropError} {
					want := 0
					if one == reason {
						want = 1
					}
					if r.Dropped[one] != want {
						t.Errorf("dropped %v, want one %s", r.Dropped, reason)
					}
				}
			})
		}
	}
}

// A GPU's own name, which older versions give an instance too, is no profile.
func TestProfileNames(t *testing.T) {
	for name, want := range map[string]bool{
		"3g.40gb": true, "1g.10gb+me": true, "1g.24gb+gfx": true, "1g.24gb+me.all": true, "1g.24gb-me": true, "1g.24gb+me,gfx-me": true,
		"": false, "NVIDIA A100-SXM4-40GB": false, "1g": false, "1c.3g.40gb": false, "3g.40gb ": false, "3g.40gb+": false,
	} {
		if profileName.MatchString(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}

// A value's time is DCGM's own, however often it is read: one that is no longer
// taken grows old.
func TestTimesAreDCGMs(t *testing.T) {
	m := newMachine(t, 2)
	m.GPUs[0].Values["frozen"] = "1"
	s := m.open(Options{}, 155)
	first := read(t, s)
	until(t, func() error {
		r := read(t, s)
		if !r.Entities[0].Values[0].Time.Equal(first.Entities[0].Values[0].Time) {
			t.Fatal("a value that is not taken any more gets newer")
		}
		if !r.Entities[1].Values[0].Time.After(first.Entities[1].Values[0].Time) {
			return fmt.Errorf("the other GPU's value does not get newer")
		}
		return nil
	})
}

// A time far in the future would never grow old.
func TestFutureIsImpossible(t *testing.T) {
	newMachine(t, 1)
	var c clock
	s := open(t, Options{now: c.now}, 155)
	read(t, s)
	c.advance(-time.Hour)
	if r := read(t, s); has(r.Entities[0], 155) || r.Dropped[collect.DropImpossible] != 1 {
		t.Errorf("%+v, dropped %v", r.Entities[0], r.Dropped)
	}
}
