package capacity_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan/capacity"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const gap = 5 * time.Minute

// book is a plain ledger: GPU by GPU, piece by piece. Busy is a float.
type book struct {
	last     capacity.Observation
	capacity int64
	time     map[capacity.Key]*[capacity.NumPlaces]int64
	busy     map[capacity.Key]float64
}

func (b *book) add(o capacity.Observation) {
	ms := o.At.UnixMilli() - b.last.At.UnixMilli()
	seen := min(ms, gap.Milliseconds())
	for _, c := range b.last.GPUs {
		b.capacity += capacity.GPUShares * ms
		for _, p := range c.Parts {
			allocated := capacity.Key{Pool: c.Pool, Model: c.Model, Tenant: p.Tenant, Namespace: p.Namespace}
			noPod := capacity.Key{Pool: c.Pool, Model: c.Model}
			ratio, known := p.Busy.Get()
			place := map[capacity.State]capacity.Place{
				capacity.Free: capacity.InFree, capacity.Fragmented: capacity.InFragmented, capacity.Stranded: capacity.InStranded,
				capacity.Cordoned: capacity.InCordoned, capacity.Repartitioning: capacity.InRepartitioning, capacity.Unknown: capacity.InUnknown,
				capacity.Booting: capacity.InBooting, capacity.Unready: capacity.InUnready, capacity.Sick: capacity.InSick,
			}[p.State]
			if p.State == capacity.Allocated {
				switch {
				case !known:
					place = capacity.Unmeasured
				case ratio < 0.01:
					place = capacity.Idle
				default:
					place = capacity.Slack
				}
				if known {
					b.busy[allocated] += ratio * float64(int64(p.Shares)*seen)
				}
			}
			b.cell(allocated)[place] += int64(p.Shares) * seen
			b.cell(noPod)[capacity.InUnknown] += int64(p.Shares) * (ms - seen)
		}
	}
	b.last = o
}

func (b *book) cell(k capacity.Key) *[capacity.NumPlaces]int64 {
	if b.time[k] == nil {
		b.time[k] = &[capacity.NumPlaces]int64{}
	}
	return b.time[k]
}

// draw returns GPUs with random parts: GPUs come and go, layouts, allocations
// and states change from one observation to the next.
func draw(t *rapid.T, at time.Time) capacity.Observation {
	o := capacity.Observation{At: at}
	for i := range rapid.IntRange(0, 6).Draw(t, "GPUs") {
		c := capacity.Seen{Name: fmt.Sprint(i), Pool: rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"),
			Model: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "model")}
		for left := capacity.GPUShares; left > 0; {
			p := capacity.Piece{Shares: min(left, rapid.SampledFrom([]int{0, 120, 210, 360, 840, 7, 833}).Draw(t, "shares")),
				State: capacity.State(rapid.IntRange(0, int(capacity.NumStates)-1).Draw(t, "state"))}
			if p.State == capacity.Allocated {
				p.Tenant = rapid.SampledFrom([]string{"", "red", "blue"}).Draw(t, "tenant")
				p.Namespace = rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace")
				if rapid.Bool().Draw(t, "measured") {
					p.Busy = sample.Known(rapid.SampledFrom([]float64{0, 0.005, 0.01, 1.0 / 3, 1}).Draw(t, "busy"), 0)
				}
			}
			left -= p.Shares
			c.Parts = append(c.Parts, p)
		}
		o.GPUs = append(o.GPUs, c)
	}
	return o
}

// TestIdentity compares with the book over random series, with gaps, times out
// of order and totals at any moment: everything is equal to the share of a
// millisecond, except for the rounding of busy ratios.
func TestIdentity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &book{time: map[capacity.Key]*[capacity.NumPlaces]int64{}, busy: map[capacity.Key]float64{}}
		whole := capacity.NewLedger(capacity.LedgerOptions{MaxGap: gap})
		at, steps := epoch, 0.0
		for range rapid.IntRange(1, 12).Draw(t, "observations") {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{1, 15000, 60000, 299999, 300000, 300001, 7200000}).Draw(t, "ms")) * time.Millisecond)
			if rapid.IntRange(0, 4).Draw(t, "advance") == 0 && steps > 0 {
				must(t, whole.Advance(b.last.At.Add(at.Sub(b.last.At)/2)))
				steps++
			}
			o := draw(t, at)
			b.add(o)
			must(t, whole.Add(o))
			steps++
			before := whole.Rows()
			for _, back := range []time.Duration{0, -time.Second, 500 * time.Microsecond} {
				if err := whole.Add(capacity.Observation{At: at.Add(back)}); !errors.Is(err, capacity.ErrOrder) {
					t.Fatalf("an observation %s after the last: %v", back, err)
				}
			}
			if !reflect.DeepEqual(before, whole.Rows()) {
				t.Fatal("a refused observation has changed the rows")
			}
		}
		b.compare(t, whole, 2*steps+1)
	})
}

// check reports whether every moment of the capacity has exactly one place.
func check(l *capacity.Ledger) error {
	sum := capacity.Time(0)
	for _, r := range l.Rows() {
		for p, v := range r.Time {
			if v < 0 {
				return fmt.Errorf("%s of %+v is less than nothing: %d", capacity.Place(p), r.Key, v)
			}
			sum += v
		}
	}
	if sum != l.Capacity() {
		return fmt.Errorf("the places add up to %d, the capacity is %d", sum, l.Capacity())
	}
	return nil
}

// hours of whole GPUs.
func hours(t capacity.Time) float64 { return float64(t) / (capacity.GPUShares * 3600 * 1000) }

func must(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *book) compare(t *rapid.T, got *capacity.Ledger, rounding float64) {
	t.Helper()
	must(t, check(got))
	if int64(got.Capacity()) != b.capacity {
		t.Fatalf("capacity %d, want %d", got.Capacity(), b.capacity)
	}
	rows := map[capacity.Key][capacity.NumPlaces]capacity.Time{}
	for _, r := range got.Rows() {
		if r.Time == [capacity.NumPlaces]capacity.Time{} {
			continue
		}
		if _, twice := rows[r.Key]; twice {
			t.Fatalf("two rows of %+v", r.Key)
		}
		rows[r.Key] = r.Time
	}
	for k, want := range b.time {
		r := rows[k]
		delete(rows, k)
		if d := math.Abs(float64(r[capacity.Busy]) - b.busy[k]); d > rounding+1e-6*float64(b.capacity) {
			t.Fatalf("%+v: busy %d, want %.1f", k, r[capacity.Busy], b.busy[k])
		}
		for p := range want {
			switch capacity.Place(p) {
			case capacity.Busy, capacity.Slack, capacity.Idle:
			default:
				if int64(r[p]) != want[p] {
					t.Fatalf("%+v: %s %d, want %d", k, capacity.Place(p), r[p], want[p])
				}
			}
		}
		if got, want := int64(r[capacity.Busy]+r[capacity.Slack]+r[capacity.Idle]), want[capacity.Slack]+want[capacity.Idle]; got != want {
			t.Fatalf("%+v: measured %d, want %d", k, got, want)
		}
		if int64(r[capacity.Idle]) > want[capacity.Idle] || int64(r[capacity.Slack]) > want[capacity.Slack] {
			t.Fatalf("%+v: idle or slack has more than was there", k)
		}
	}
	if len(rows) > 0 {
		t.Fatalf("unexpected rows: %v", rows)
	}
}

func device(parts ...capacity.Piece) []capacity.Seen {
	return []capacity.Seen{{Name: "n1/0", Pool: "p", Model: "A", Parts: parts}}
}

// TestRefuses: an error names what is wrong, and the ledger is unchanged.
func TestRefuses(t *testing.T) {
	whole := capacity.Piece{Shares: capacity.GPUShares}
	tests := []struct {
		name, want string
		at         time.Time
		gpus       []capacity.Seen
	}{
		{name: "half a GPU", gpus: device(capacity.Piece{Shares: 420}), want: `GPU "n1/0": parts: their shares add up to 420, want 840`},
		{name: "more than a GPU", gpus: device(whole, capacity.Piece{Shares: 1}), want: `GPU "n1/0": parts: their shares add up to 841, want 840`},
		{name: "less than nothing", gpus: device(whole, capacity.Piece{Shares: -1}, capacity.Piece{Shares: 1}), want: `GPU "n1/0": part 1: shares: want 0 … 840: -1`},
		{name: "no such state", gpus: device(capacity.Piece{Shares: 840, State: 99}), want: `GPU "n1/0": part 0: there is no state 99`},
		{name: "twice", gpus: append(device(whole), device(whole)...), want: `GPU "n1/0" is there twice`},
		{name: "no time", at: time.Time{}.Add(1), want: `time 0001-01-01T00:00:00.000000001Z: want one of the years 1970 … 9999`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := capacity.NewLedger(capacity.LedgerOptions{})
			if err := l.Add(capacity.Observation{At: epoch, GPUs: device(whole)}); err != nil {
				t.Fatal(err)
			}
			if test.at.IsZero() {
				test.at = epoch.Add(time.Minute)
			}
			prefix := "observation at 2026-01-01T00:01:00Z: "
			if test.gpus == nil {
				prefix = ""
			}
			if err := l.Add(capacity.Observation{At: test.at, GPUs: test.gpus}); err == nil || err.Error() != prefix+test.want {
				t.Errorf("got %v", err)
			}
			if err := l.Advance(epoch.Add(time.Hour)); err != nil || hours(l.Capacity()) != 1 {
				t.Errorf("afterwards: %v, %d", err, l.Capacity())
			}
		})
	}
}

// TestFull: a sum that no longer fits is refused, never wrapped around.
func TestFull(t *testing.T) {
	gpus := make([]capacity.Seen, 2000)
	for i := range gpus {
		gpus[i] = capacity.Seen{Name: fmt.Sprint(i), Parts: []capacity.Piece{{Shares: capacity.GPUShares}}}
	}
	l := capacity.NewLedger(capacity.LedgerOptions{})
	if err := l.Add(capacity.Observation{At: epoch, GPUs: gpus}); err != nil {
		t.Fatal(err)
	}
	if err := l.Advance(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); !errors.Is(err, capacity.ErrFull) {
		t.Errorf("2,000 GPUs for 8,000 years: %v", err)
	}
	if err := l.Advance(time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Errorf("2,000 GPUs for a century: %v", err)
	}
	if err := l.Advance(time.Date(2226, 1, 1, 0, 0, 0, 0, time.UTC)); !errors.Is(err, capacity.ErrFull) {
		t.Errorf("and another: %v", err)
	}
}

// TestManyRows: a ledger with too many tenants keeps its size and its sum.
func TestManyRows(t *testing.T) {
	l := capacity.NewLedger(capacity.LedgerOptions{MaxRows: 8})
	for i := range 100 {
		part := capacity.Piece{Shares: capacity.GPUShares, State: capacity.Allocated, Namespace: fmt.Sprint(i)}
		if err := l.Add(capacity.Observation{At: epoch.Add(time.Duration(i) * time.Minute), GPUs: device(part)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(l); err != nil || l.Capacity() != 99*60*1000*capacity.GPUShares {
		t.Errorf("%v, capacity %d", err, l.Capacity())
	}
	if len(l.Rows()) > 10 {
		t.Errorf("%d rows", len(l.Rows()))
	}
	var other capacity.Row
	for _, r := range l.Rows() {
		if r.Namespace == capacity.Other {
			other = r
		}
	}
	if hours(other.Time[capacity.Unmeasured]) < 1.5 {
		t.Errorf("under %s: %+v", capacity.Other, other)
	}
}

// TestBusyBounds: a ratio slightly above one is one, and an impossible one is
// unknown.
func TestBusyBounds(t *testing.T) {
	for ratio, want := range map[float64]capacity.Place{1.005: capacity.Busy, 1.02: capacity.Unmeasured, -0.1: capacity.Unmeasured} {
		l := capacity.NewLedger(capacity.LedgerOptions{})
		part := capacity.Piece{Shares: capacity.GPUShares, State: capacity.Allocated, Busy: sample.Known(ratio, 0)}
		if err := errors.Join(l.Add(capacity.Observation{At: epoch, GPUs: device(part)}), l.Advance(epoch.Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
		if rows := l.Rows(); len(rows) == 0 || rows[0].Time[want] != l.Capacity() || l.Capacity() == 0 {
			t.Errorf("%g: %+v", ratio, rows)
		}
	}
}
