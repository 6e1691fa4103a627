package capacity

import (
	"cmp"
	"slices"
	"strings"
)

// Row is the time of one key, by place.
type Row struct {
	Key
	Time [NumPlaces]Time
}

// Rows returns every row, sorted by key, rows without time included. Their times add
// up to Capacity: every moment of it has exactly one place.
func (l *Ledger) Rows() []Row {
	rows := make([]Row, len(l.rows))
	for i := range l.rows {
		rows[i] = l.rows[i].Row
	}
	slices.SortFunc(rows, func(a, b Row) int { return a.Key.compare(b.Key) })
	return rows
}

// Capacity is the time of all GPUs, counted separately from the rows.
func (l *Ledger) Capacity() Time { return l.capacity }

func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Pool, o.Pool), strings.Compare(k.Model, o.Model), strings.Compare(k.Tenant, o.Tenant),
		strings.Compare(k.Namespace, o.Namespace))
}
