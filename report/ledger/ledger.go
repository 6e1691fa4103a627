package ledger

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/report/query"
)

// Ledger accounts for the GPU time of a window.
type Ledger struct {
	// Capacity is the total GPU time, in seconds of one GPU. It is counted independently of the rows.
	Capacity float64
	Rows     []Row // sorted by key
	// Grid has the moments of Steps and Series: those of the autoscaler's counters.
	Grid query.Grid
	// Steps[i] is the time of all rows between moments i-1 and i of the grid; Steps[0] is empty.
	Steps []Time
	// Series has the allocated GPUs by pool and model.
	Series []Series
	// FromAutoscaler and FromExporter are the seconds of the window that come from each source. The rest has no
	// record.
	FromAutoscaler, FromExporter float64
	// Gaps are the times without a record, the longest first.
	Gaps []Gap
	// Over is by how much the places exceed the counted capacity.
	Over float64
	// Blank is the seconds of the window without any record, for example before the first sample or beyond Prometheus'
	// retention. Not even the number of GPUs is known then.
	Blank float64
	// Lost is GPU time of counters that were reset before their last value was read. It is part of Unknown.
	Lost float64
}

// Series is the number of GPUs of a pool or model at each moment of the grid; NaN if unknown.
type Series struct {
	Key
	Allocated []float64
}

// Gap is a time range without a record.
type Gap struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// Tolerance is how much the sum of the places may differ from the capacity, as a share of it: counters are
// not read at the same moment.
const Tolerance = 0.001

// Make reads the answers. It never fails: what is missing is unknown.
func Make(a query.Answers) Ledger {
	l := Ledger{Grid: a.Window.Grid(a.Window.Ledger)}
	l.Steps = make([]Time, l.Grid.N+1)
	b := book{l: &l, rows: map[Key]*Time{}, series: map[Key]*Series{}}
	seen := exporterSeen(a, l.Grid)
	counted, entered := b.autoscaler(a, seen)
	for k := 1; k <= l.Grid.N; k++ {
		if !entered[k] {
			b.exporter(seen, k)
		}
		switch {
		case counted[k]:
			l.FromAutoscaler += l.Grid.Step.Seconds()
		case !entered[k] && seen.has(k):
			l.FromExporter += l.Grid.Step.Seconds()
		default:
			if l.Steps[k].Sum() == 0 {
				l.Blank += l.Grid.Step.Seconds()
			}
			l.gap(k)
		}
	}
	b.close()
	return l
}

func (l *Ledger) gap(k int) {
	from, to := l.Grid.At(k-1), l.Grid.At(k)
	if n := len(l.Gaps); n > 0 && l.Gaps[n-1].Until.Equal(from) {
		l.Gaps[n-1].Until = to
		return
	}
	l.Gaps = append(l.Gaps, Gap{from, to})
}

// Total is the sum of all rows.
func (l Ledger) Total() Time {
	var t Time
	for _, r := range l.Rows {
		t.Add(r.Time)
	}
	return t
}

// book is a ledger under construction.
type book struct {
	l      *Ledger
	rows   map[Key]*Time
	series map[Key]*Series
}

// put adds time in a place for a key and step. It adds no capacity.
func (b *book) put(k int, key Key, p Place, seconds float64) {
	if seconds == 0 {
		return
	}
	t := b.rows[key]
	if t == nil {
		t = new(Time)
		b.rows[key] = t
	}
	t[p] += seconds
	b.l.Steps[k][p] += seconds
	if p.Allocated() {
		add(b.of(key).Allocated, k, seconds/b.l.Grid.Step.Seconds())
	}
}

// there adds capacity.
func (b *book) there(k int, key Key, seconds float64) {
	b.l.Capacity += seconds
	add(b.of(key).Allocated, k, 0)
}

func (b *book) of(key Key) *Series {
	key = key.poolModel()
	if b.series[key] == nil {
		b.series[key] = &Series{Key: key, Allocated: nans(b.l.Grid.N + 1)}
	}
	return b.series[key]
}

func (b *book) close() {
	for key, t := range b.rows {
		b.l.Rows = append(b.l.Rows, Row{key, *t})
	}
	slices.SortFunc(b.l.Rows, func(a, b Row) int { return a.compare(b.Key) })
	for _, s := range b.series {
		b.l.Series = append(b.l.Series, *s)
	}
	slices.SortFunc(b.l.Series, func(a, b Series) int { return a.compare(b.Key) })
	slices.SortStableFunc(b.l.Gaps, func(a, b Gap) int { return cmp.Compare(b.Until.Sub(b.From), a.Until.Sub(a.From)) })
}

// poolModel is the key without its pod.
func (k Key) poolModel() Key { return Key{Pool: k.Pool, Model: k.Model} }

func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Pool, o.Pool), strings.Compare(k.Model, o.Model),
		strings.Compare(k.Tenant, o.Tenant), strings.Compare(k.Namespace, o.Namespace))
}

func nans(n int) []float64 { return slices.Repeat([]float64{math.NaN()}, n) }

// add adds to a value that may be unknown so far.
func add(v []float64, k int, x float64) {
	if math.IsNaN(v[k]) {
		v[k] = 0
	}
	v[k] += x
}
