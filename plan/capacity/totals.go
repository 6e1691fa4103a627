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

// Totals are what a ledger has added up.
type Totals struct {
	From, To time.Time // first observation, end of what is accounted for
	// Capacity is the time of all cards, counted apart from the rows.
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

// All returns every row there is, sorted by key: those too that have no time yet.
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

// Merge adds the totals of two ledgers that have counted no moment of a card
// both: of different cards, or of different times. It has a row for every key that
// either has. The error is that of Check, or
// wraps ErrFull.
func Merge(a, b Totals) (Totals, error) {
	if err := errors.Join(a.Check(), b.Check()); err != nil {
		return Totals{}, err
	}
	if a.Capacity > math.MaxInt64-b.Capacity {
		return Totals{}, fmt.Errorf("merging %s and %s: %w", a.Capacity, b.Capacity, ErrFull)
	}
	m := Totals{From: a.From, To: a.To, Capacity: a.Capacity + b.Capacity}
	if m.From.IsZero() || !b.From.IsZero() && b.From.Before(m.From) {
		m.From = b.From
	}
	if b.To.After(m.To) {
		m.To = b.To
	}
	rows := append(slices.Clone(a.Rows), b.Rows...)
	slices.SortStableFunc(rows, func(x, y Row) int { return x.Key.compare(y.Key) })
	for _, r := range rows {
		if n := len(m.Rows); n > 0 && m.Rows[n-1].Key == r.Key {
			for p, v := range r.Time {
				m.Rows[n-1].Time[p] += v
			}
			continue
		}
		m.Rows = append(m.Rows, r)
	}
	return m, nil
}
