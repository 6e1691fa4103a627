package watch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// readings are values from Prometheus.
type readings struct {
	queue     sample.Value // requests waiting
	ttft      sample.Value // p95, seconds
	busy      sample.Value // work in the pools, as a number of busy GPUs
	exporters sample.Value // processes that are up
}

// queries maps each query to the reading that it fills.
func (r *readings) queries() map[string]*sample.Value {
	return map[string]*sample.Value{
		`sum(vllm:num_requests_waiting)`: &r.queue,
		`histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket[10s])))`: &r.ttft,
		`sum(gpu_busy_ratio and on (node) (up{job="gpuscale-exporter"} == 1))`:                       &r.busy,
		`sum(up{job="gpuscale-exporter"})`:                                                           &r.exporters,
	}
}

// ask sends all queries. A reading without an answer stays unknown; errors are joined.
func ask(ctx context.Context, c *prom.Client) (readings, error) {
	var r readings
	var errs []error
	for query, value := range r.queries() {
		v, err := one(ctx, c, query)
		if err != nil {
			errs = append(errs, fmt.Errorf("asking %q: %w", query, err))
		}
		*value = v
	}
	return r, errors.Join(errs...)
}

func one(ctx context.Context, c *prom.Client, query string) (sample.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	v, err := c.Query(ctx, query, time.Time{})
	if err != nil || len(v) != 1 || math.IsNaN(v[0].Value) {
		return sample.Unknown(), err
	}
	return sample.Known(v[0].Value, 0), nil
}
