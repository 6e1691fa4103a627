package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Row is the time of one key, by place.
type Row struct {
	Key
	Time [NumPlaces]Time
}

// Totals are the sums of a ledger.
type Totals struct {
	From, To time.Time // first observation, end of what is accounted for
	// Capacity is the time of all GPUs, counted separately from the rows.
	Capacity Time
	Rows     []Row // sorted by key
}

// Totals returns what has been accounted for so far.
func (l *Ledger) Totals() Totals {
	t := Totals{Capacity: l.capacity}
	if l.started {
		t.From, t.To = time.UnixMilli(l.first).UTC(), time.UnixMilli(l.upTo).UTC()
	}
	for i := range l.rows {
		if l.rows[i].Time != [NumPlaces]Time{} {
			t.Rows = append(t.Rows, l.rows[i].Row)
		}
	}
	slices.SortFunc(t.Rows, func(a, b Row) int { return a.Key.compare(b.Key) })
	return t
}

// All returns every row, sorted by key, rows without time included.
func (l *Ledger) All() []Row {
	rows := make([]Row, len(l.rows))
	for i := range l.rows {
		rows[i] = l.rows[i].Row
	}
	slices.SortFunc(rows, func(a, b Row) int { return a.Key.compare(b.Key) })
	return rows
}

func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Pool, o.Pool), strings.Compare(k.Model, o.Model), strings.Compare(k.Tenant, o.Tenant),
		strings.Compare(k.Namespace, o.Namespace), cmp.Compare(k.PricePerHour, o.PricePerHour))
}

// Check reports whether every moment of the capacity has exactly one place.
func (t Totals) Check() error {
	sum := uint64(0)
	for _, r := range t.Rows {
		for p, v := range r.Time {
			if v < 0 {
				return fmt.Errorf("%s of %+v is less than nothing: %d", Place(p), r.Key, v)
			}
			if sum += uint64(v); sum > math.MaxInt64 {
				return errors.New("the places add up to more than a ledger can count")
			}
		}
	}
	if sum != uint64(t.Capacity) {
		return fmt.Errorf("the places add up to %d, the capacity is %d", sum, t.Capacity)
	}
	return nil
}
