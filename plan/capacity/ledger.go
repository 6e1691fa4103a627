package capacity

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"
)

// LedgerOptions are the limits of a ledger.
type LedgerOptions struct {
	// MaxGap is how long an observation holds when no other follows. Time beyond
	// it is InUnknown.
	MaxGap time.Duration
	// IdleBelow is the busy ratio below which an allocated GPU counts as idle.
	IdleBelow float64
	// MaxRows bounds the ledger's memory: the time of further keys is added up
	// under Other.
	MaxRows int
}

// DefaultLedgerOptions suit observations a minute apart or closer.
func DefaultLedgerOptions() LedgerOptions {
	return LedgerOptions{MaxGap: 5 * time.Minute, IdleBelow: 0.01, MaxRows: 20000}
}

// Other stands for pool, model, tenant and namespace of keys beyond MaxRows.
const Other = "(other)"

// Key identifies a row of the ledger. Tenant and Namespace are those of the pod
// the GPU is allocated to, empty for none.
type Key struct {
	Pool, Model, Tenant, Namespace string
}

// Ledger adds up GPU time by use, over a series of observations. Each holds
// from its time until the next, at most MaxGap. Its memory grows with the
// number of keys, not of GPUs or observations. It is not safe for concurrent
// use.
type Ledger struct {
	options  LedgerOptions
	last     int64 // ms; time of the last observation
	upTo     int64 // accounted up to here, last or later
	started  bool
	rows     []ledgerRow
	index    map[Key]int
	names    map[string]bool // of the GPUs of one observation
	shares   int64           // of all GPUs of the last observation
	capacity Time
}

// ledgerRow is a row, and what it grows by in a millisecond.
type ledgerRow struct {
	Row
	base   int // row of the same GPUs while free
	shares [NumPlaces]int64
	// busy is the shares in Slack and in Idle that compute, in millionths.
	busySlack, busyIdle int64
}

// million is the resolution of a busy ratio.
const million = 1e6

// NewLedger returns an empty ledger. Options that are zero or no numbers are
// those of DefaultLedgerOptions.
func NewLedger(o LedgerOptions) *Ledger {
	d := DefaultLedgerOptions()
	if o.MaxGap <= 0 {
		o.MaxGap = d.MaxGap
	}
	if !(o.IdleBelow > 0) {
		o.IdleBelow = d.IdleBelow
	}
	if o.MaxRows <= 0 {
		o.MaxRows = d.MaxRows
	}
	return &Ledger{options: o, index: map[Key]int{}, names: map[string]bool{}}
}

// Errors of Add and Advance, which then change nothing.
var (
	// ErrOrder is for a time that is not later than the one before, in
	// milliseconds.
	ErrOrder = errors.New("time does not go forward")
	// ErrFull is for more GPU time than a ledger can count: 80,000 GPUs for four
	// years.
	ErrFull = errors.New("the ledger is full")
)

// Add accounts for the time since the last observation and stores the next one.
// It costs time in proportion to the parts of the GPUs. The error names the GPU
// that is wrong, or wraps ErrOrder or ErrFull; the ledger is then as before.
func (l *Ledger) Add(o Observation) error {
	at, err := l.timeOf(o.At)
	if err != nil {
		return err
	}
	if l.started && at <= l.last {
		return fmt.Errorf("observation at %s: %w", o.At.Format(time.RFC3339Nano), ErrOrder)
	}
	if err := l.check(o.GPUs); err != nil {
		return fmt.Errorf("observation at %s: %w", o.At.Format(time.RFC3339Nano), err)
	}
	if err := l.advance(at); err != nil {
		return err
	}
	l.started, l.last, l.upTo = true, at, at
	l.take(o.GPUs)
	return nil
}

// Advance accounts for the time up to at, so that Rows has it. The last
// observation still holds. The error is as for Add; at may be the time reached.
func (l *Ledger) Advance(at time.Time) error {
	ms, err := l.timeOf(at)
	if err != nil {
		return err
	}
	if !l.started {
		return nil
	}
	return l.advance(ms)
}

// timeOf returns at in milliseconds; an error for a time before what is
// accounted for.
func (l *Ledger) timeOf(at time.Time) (int64, error) {
	if year := at.Year(); year < 1970 || year > 9999 {
		return 0, fmt.Errorf("time %s: want one of the years 1970 … 9999", at.Format(time.RFC3339Nano))
	}
	ms := at.UnixMilli()
	if l.started && ms < l.upTo {
		return 0, fmt.Errorf("time %s, accounted up to %s: %w", at.Format(time.RFC3339Nano),
			time.UnixMilli(l.upTo).UTC().Format(time.RFC3339Nano), ErrOrder)
	}
	return ms, nil
}

func (l *Ledger) check(gpus []Seen) error {
	clear(l.names)
	for i := range gpus {
		c := &gpus[i]
		if err := c.check(); err != nil {
			return err
		}
		l.names[c.Name] = true
		if len(l.names) != i+1 {
			return fmt.Errorf("GPU %q is there twice", c.Name)
		}
	}
	return nil
}

// advance adds what every row has grown by until at.
func (l *Ledger) advance(at int64) error {
	if !l.started || at == l.upTo {
		return nil
	}
	// No cell outgrows the sum of all, so checking the sum is enough.
	hi, grown := bits.Mul64(uint64(l.shares), uint64(at-l.upTo))
	if hi != 0 || grown > uint64(math.MaxInt64-l.capacity) {
		return fmt.Errorf("%d GPUs until %s: %w", l.shares/GPUShares, time.UnixMilli(at).UTC().Format(time.RFC3339), ErrFull)
	}
	seen := min(max(l.last+l.options.MaxGap.Milliseconds(), l.upTo), at)
	for i := range l.rows {
		l.rows[i].grow(seen - l.upTo)
		l.rows[l.rows[i].base].Time[InUnknown] += Time(l.rows[i].total() * (at - seen))
	}
	l.capacity += Time(grown)
	l.upTo = at
	return nil
}

// grow adds ms milliseconds of the last observation.
func (r *ledgerRow) grow(ms int64) {
	for p, shares := range r.shares {
		r.Time[p] += Time(shares * ms)
	}
	slack, idle := portion(r.busySlack, ms), portion(r.busyIdle, ms)
	r.Time[Slack] -= slack
	r.Time[Idle] -= idle
	r.Time[Busy] += slack + idle
}

func (r *ledgerRow) total() int64 {
	var sum int64
	for _, shares := range r.shares {
		sum += shares
	}
	return sum
}

// portion is the computing part of ms milliseconds, rounded down to a share of
// a millisecond: in a month of observations a second apart a GPU loses 3
// seconds.
func portion(millionths, ms int64) Time {
	hi, lo := bits.Mul64(uint64(millionths), uint64(ms))
	q, _ := bits.Div64(hi, lo, million)
	return Time(q)
}
