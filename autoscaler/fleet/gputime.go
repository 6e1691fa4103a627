package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

// maxGap is how long a survey is valid when no other follows. The time beyond it is unknown, and of no tenant.
const maxGap = 5 * time.Minute

// gpuTime adds up GPU time by use, over a series of surveys. Its memory grows with the
// number of keys up to maxRows: the time of further ones is added up under "(other)".
type gpuTime struct {
	used, capacity *prometheus.CounterVec
	known          map[key]bool
	gpus           map[key]*[uses]float64 // of the last survey
	surveyed, upTo time.Time
}

var otherKey = key{metric.Other, metric.Other, metric.Other, metric.Other}

// row is the key under which a key's time is added up. All uses that the row can have are exported from the start, at
// 0: otherwise rate() would miss the first increase.
func (l *gpuTime) row(k key) key {
	switch {
	case l.known[k]:
		return k
	case len(l.known) >= maxRows && k != otherKey:
		return l.row(otherKey)
	}
	l.known[k] = true
	l.free(k)
	for u := range uses {
		if u.ofPod() == k.ofPod() {
			l.add(k, u, 0)
		}
	}
	return k
}

// free is the row of the same GPUs without a pod.
func (l *gpuTime) free(k key) key {
	if k == otherKey || !k.ofPod() {
		return k
	}
	return l.row(key{pool: k.pool, model: k.model})
}

func (l *gpuTime) add(k key, u use, seconds float64) {
	l.used.WithLabelValues(allNamed(k.pool, k.model, k.tenant, k.namespace, metric.PlaceWords()[u])...).Add(seconds)
	l.capacity.WithLabelValues(allNamed(k.pool, k.model)...).Add(seconds)
}

// advance adds the time up to now.
func (l *gpuTime) advance(now time.Time) {
	all := now.Sub(l.upTo)
	known := min(all, max(l.surveyed.Add(maxGap).Sub(l.upTo), 0))
	for _, k := range slices.SortedFunc(maps.Keys(l.gpus), key.compare) { // in a fixed order, on which floating-point sums depend
		for u, gpus := range l.gpus[k] {
			if gpus == 0 {
				continue
			}
			l.add(k, use(u), gpus*known.Seconds())
			if known < all {
				l.add(l.free(k), unknown, gpus*(all-known).Seconds())
			}
		}
	}
	l.upTo = now
}

// survey adds the time up to a survey, whose states apply from then on.
func (l *gpuTime) survey(v *survey) {
	if l.upTo.IsZero() {
		l.upTo = v.Now
	}
	l.advance(v.Now)
	l.surveyed, l.gpus = v.Now, map[key]*[uses]float64{}
	for _, k := range slices.SortedFunc(maps.Keys(v.rows), key.compare) {
		row := l.row(k)
		if l.gpus[row] == nil {
			l.gpus[row] = &[uses]float64{}
		}
		for u, gpus := range v.rows[k] {
			l.gpus[row][u] += gpus
		}
	}
}
