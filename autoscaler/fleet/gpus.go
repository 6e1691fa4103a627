package fleet

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan/capacity"
)

// times collects GPU time by use, and its total.
func (f *Fleet) times(ch chan<- prometheus.Metric) {
	rows := f.ledger.Rows()
	for i := 0; i < len(rows); {
		sum := capacity.Time(0)
		pool, model := rows[i].Pool, rows[i].Model
		for ; i < len(rows) && rows[i].Pool == pool && rows[i].Model == model; i++ {
			sum += f.row(ch, &rows[i])
		}
		ch <- f.counter(metric.AutoscalerCapacityGPUSeconds, seconds(sum), pool, model)
	}
}

// row collects the uses of one row and returns their sum. All uses that the row can have
// are exported from the start, at 0: otherwise rate() would miss the first increase.
func (f *Fleet) row(ch chan<- prometheus.Metric, r *capacity.Row) (sum capacity.Time) {
	allocated := r.Tenant != "" || r.Namespace != ""
	for p := range capacity.NumPlaces {
		if v := r.Time[p]; v != 0 || p.OfPod() == allocated {
			ch <- f.counter(metric.AutoscalerGPUSeconds, seconds(v), r.Pool, r.Model, r.Tenant, r.Namespace, p.String())
			sum += v
		}
	}
	return sum
}

// seconds of whole GPUs.
func seconds(t capacity.Time) float64 { return float64(t) / (capacity.GPUShares * 1000) }

// gpus adds the states of the GPUs.
func (f *Fleet) gpus(sv *capacity.Survey) {
	for _, row := range sv.Supply() {
		for s := range capacity.NumStates {
			f.add(metric.AutoscalerGPUs, row.Size[s].GPUs(), row.Pool, row.Model, s.String())
		}
	}
	for _, loss := range sv.Stranded() {
		f.add(metric.AutoscalerStrandedGPUs, loss.Size.GPUs(), loss.Pool, loss.Cause.String())
	}
}
