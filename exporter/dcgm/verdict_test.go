package dcgm

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
)

// Each way in which DCGM says that there is no value, and each value that is
// none, vanishes and is counted under its reason, and takes nothing with it.
func TestNoValues(t *testing.T) {
	for reason, answers := range map[string][]struct {
		field uint16
		odd   string
		n     float64
	}{
		collect.DropBlank: {
			{field: 155, odd: "blank"}, {field: 155, odd: "not_found"}, {field: 203, odd: "blank"}, {field: 203, odd: "not_found"},
			{field: 203, odd: "int32_blank"}, {field: 203, odd: "int32_not_found"}, {field: 53, odd: "blank"}, {field: 53, odd: "not_found"},
			{field: 53, odd: "text:"}, {field: 203, odd: "status:-14"},
		},
		collect.DropNotSupported: {
			{field: 155, odd: "unsupported"}, {field: 155, odd: "not_permitted"}, {field: 203, odd: "unsupported"},
			{field: 203, odd: "not_permitted"}, {field: 203, odd: "int32_unsupported"}, {field: 203, odd: "int32_not_permitted"},
			{field: 53, odd: "unsupported"}, {field: 53, odd: "not_permitted"}, {field: 53, odd: "text:N/A"}, {field: 53, odd: "text:[N/A]"},
			{field: 203, odd: "status:-6"}, {field: 203, odd: "status:-16"},
		},
		collect.DropImpossible: {
			{field: 155, odd: "nan"}, {field: 155, odd: "inf"}, {field: 155, n: 1e31}, {field: 155, n: 808334905}, {field: 155, n: -1},
			{field: 156, n: -5}, {field: 203, n: 808334905}, {field: 203, n: 101}, {field: 204, n: -1}, {field: 1001, n: 7},
			{field: 250, n: 808334905}, {field: 150, n: 808334905}, {field: 100, n: 808334905}, {field: 237, n: 808334905},
		},
		collect.DropError: {{field: 203, odd: "status:-18"}, {field: 155, odd: "status:-3"}},
	} {
		for _, a := range answers {
			t.Run(fmt.Sprint(reason, a), func(t *testing.T) {
				m := newMachine(t, 2)
				delete(m.GPUs[0].Fields, a.field)
				if a.odd != "" {
					m.GPUs[0].Odd = fakedcgm.Odd{a.field: a.odd}
				} else {
					m.GPUs[0].Fields[a.field] = a.n
				}
				m.GPUs[1].Fields[a.field] = 0.5 // which fits every field
				if a.field == 53 {
					m.GPUs[1].Fields, m.GPUs[1].Odd = nil, fakedcgm.Odd{53: "text:1234"}
				}
				m.GPUs[0].Fields[140] = 45
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
	m.GPUs[0].Lines = fakedcgm.Lines{"frozen": 1}
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
