package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// maxGap is how long a survey holds when no other follows. Time beyond it is unknown,
// and no tenant's.
const maxGap = 5 * time.Minute

// gpuTime adds up GPU time by use, over a series of surveys. Its memory grows with the
// number of keys up to maxRows: the time of further ones is added up under "(other)".
type gpuTime struct {
	rows           map[key]*row
	begun          time.Time // when it started at zero
	surveyed, upTo time.Time
}

type row struct {
	gpus    [uses]float64 // of the last survey
	seconds [uses]float64
	base    *row // of the same GPUs while no pod has them
}

var otherKey = key{metric.Other, metric.Other, metric.Other, metric.Other}

// row is the row of a key, which it adds up to maxRows.
func (l *gpuTime) row(k key) *row {
	if r := l.rows[k]; r != nil {
		return r
	}
	if len(l.rows) >= maxRows && k != otherKey {
		return l.row(otherKey)
	}
	r := &row{}
	r.base = r
	l.rows[k] = r
	if k != otherKey && (k.tenant != "" || k.namespace != "") {
		r.base = l.row(key{pool: k.pool, model: k.model})
	}
	return r
}

// keys are in order, so that sums are always the same.
func (l *gpuTime) keys() []key { return slices.SortedFunc(maps.Keys(l.rows), key.compare) }

// advance adds the time up to now.
func (l *gpuTime) advance(now time.Time) error {
	if now.Before(l.upTo) {
		return fmt.Errorf("time %s, accounted up to %s: time does not go forward", now.UTC().Format(time.RFC3339Nano), l.upTo.UTC().Format(time.RFC3339Nano))
	}
	all := now.Sub(l.upTo)
	known := min(all, max(l.surveyed.Add(maxGap).Sub(l.upTo), 0))
	for _, k := range l.keys() {
		r := l.rows[k]
		for u, gpus := range r.gpus {
			r.seconds[u] += gpus * known.Seconds()
			r.base.seconds[unknown] += gpus * (all - known).Seconds()
		}
	}
	l.upTo = now
	return nil
}

// survey adds the time up to a survey, which holds from then on. After an error it has
// started again at zero.
func (l *gpuTime) survey(v *survey) error {
	var err error
	if !l.begun.IsZero() {
		err = l.advance(v.Now)
	}
	if err != nil || l.begun.IsZero() {
		*l = gpuTime{rows: map[key]*row{}, begun: v.Now, upTo: v.Now}
	}
	l.surveyed = v.Now
	for _, r := range l.rows {
		r.gpus = [uses]float64{}
	}
	for _, k := range slices.SortedFunc(maps.Keys(v.rows), key.compare) {
		r := l.row(k)
		for u, gpus := range v.rows[k] {
			r.gpus[u] += gpus
		}
	}
	if err != nil {
		return fmt.Errorf("the ledger of GPU time restarts at zero: %w", err)
	}
	return nil
}
