package collect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// pair is two cards with moving values; of the first one the power is old.
func pair(busy0, busy1 float64, taken time.Time) *Reading {
	a, b := card(busy0, taken), card(busy1, taken)
	b.GPU, b.UUID = 1, "GPU-b"
	a.Values[0].Time = taken.Add(-2 * time.Second)
	return &Reading{Taken: taken, Entities: []Entity{a, b}}
}

// One old series goes alone: its family's others stay, whole.
func TestOldSeriesGoesAlone(t *testing.T) {
	page := compiler().Compile(pair(0.25, 0.5, start), Attribution{})
	got := text(page, start.Add(time.Second))
	for line, want := range map[string]int{
		`gpu_power_watts{node="n",gpu="1",gpu_uuid="GPU-b",model="L40S"} 100` + "\n": 1,
		`gpu_power_watts{node="n",gpu="0"`:                                           0,
		`DCGM_FI_DEV_POWER_USAGE{gpu="0"`:                                            0,
		`DCGM_FI_DEV_POWER_USAGE{gpu="1"`:                                            1,
		`gpu_busy_ratio{node="n",gpu="1",gpu_uuid="GPU-b",model="L40S"} 0.5` + "\n":  1,
		"# HELP gpu_power_watts ":                                                    1,
	} {
		if n := strings.Count(got, line); n != want {
			t.Errorf("%q is there %d times, want %d:\n%s", line, n, want, got)
		}
	}
}

// Text that is kept from the page before is what would be rendered anew,
// whatever changed between them.
func TestKeptTextIsTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	kept, ledger := compiler(), NewLedger(time.Second)
	kept.ledger = ledger
	for step := range 300 {
		taken := start.Add(time.Duration(step) * time.Second)
		r := pair(float64(random.IntN(2))/2, float64(random.IntN(2))/2, taken)
		if random.IntN(4) == 0 {
			r.Entities = r.Entities[random.IntN(2):][:1]
		}
		a := Attribution{Taken: start, Holders: make([][]Holder, len(r.Entities))}
		if random.IntN(3) == 0 {
			a.Holders[0] = []Holder{{"ns", fmt.Sprintf("pod-%d", random.IntN(2)), "c"}}
		}
		page := kept.Compile(r, a)
		anew := &Page{families: slices.Clone(page.families), maxAge: page.maxAge}
		for i := range anew.families {
			anew.families[i].samples = slices.Clone(page.families[i].samples)
		}
		anew.render(nil)
		for _, late := range []time.Duration{0, time.Second, time.Hour} {
			for _, openMetrics := range []bool{false, true} {
				got, count := page.Append(nil, taken.Add(late), openMetrics)
				want, wantCount := anew.Append(nil, taken.Add(late), openMetrics)
				if string(got) != string(want) || count != wantCount {
					t.Fatalf("step %d, %s late: %+v, want %+v\n%s\nwant\n%s", step, late, count, wantCount, got, want)
				}
			}
		}
	}
}
