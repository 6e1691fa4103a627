package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan/capacity"
)

// times tells where GPU time went, and how much there was.
func (f *Fleet) times(ch chan<- prometheus.Metric) {
	rows := f.ledger.All()
	for i := 0; i < len(rows); {
		sum := capacity.Time(0)
		pool, model := rows[i].Pool, rows[i].Model
		for ; i < len(rows) && rows[i].Pool == pool && rows[i].Model == model; i++ {
			sum += f.row(ch, &rows[i])
		}
		ch <- f.counter(metric.AutoscalerCapacityGPUSeconds, seconds(sum), pool, model)
	}
}

// row tells the places of one row and returns their sum. Places that such a row can
// have are there from the first on, at 0: else the first increase would not be seen.
func (f *Fleet) row(ch chan<- prometheus.Metric, r *capacity.Row) (sum capacity.Time) {
	held := r.Tenant != "" || r.Namespace != ""
	for p := range capacity.NumPlaces {
		if v := r.Time[p]; v != 0 || p.OfHolder() == held {
			ch <- f.counter(metric.AutoscalerGPUSeconds, seconds(v), r.Pool, r.Model, r.Tenant, r.Namespace, p.Label())
			sum += v
		}
	}
	return sum
}

// seconds of whole cards.
func seconds(t capacity.Time) float64 { return float64(t) / (capacity.CardShares * 1000) }

// cards adds what state the cards are in.
func (f *Fleet) cards(sv *capacity.Survey) {
	for _, row := range sv.Supply(capacity.ByPool) {
		for s := range capacity.NumStates {
			f.add(metric.AutoscalerGPUs, row.Size[s].Cards(), row.Pool, row.Model, s.String())
		}
	}
	type key struct{ pool, cause string }
	sums := map[key]float64{}
	for _, loss := range sv.Stranded() {
		if loss.State == capacity.Fragmented || loss.State == capacity.Stranded {
			sums[key{loss.Pool, loss.Cause.Label()}] += loss.Size.Cards()
		}
	}
	for _, k := range sortedKeys(sums, func(a, b key) int { return cmp.Or(strings.Compare(a.pool, b.pool), strings.Compare(a.cause, b.cause)) }) {
		f.add(metric.AutoscalerStrandedGPUs, sums[k], k.pool, k.cause)
	}
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
