package signal

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
)

// fleet is an answer for 1,000 namespaces of 100 pods of one series each, with
// the labels a Prometheus Operator's pod monitor gives.
func fleet(at time.Time) []Sample {
	all := make([]Sample, 0, 200_000)
	for n := range 100_000 {
		ls := func() labels.Labels {
			return labels.FromStrings(
				"namespace", fmt.Sprintf("team-%d", n/100), "pod", fmt.Sprintf("vllm-6d4cf56db6-%05d", n%100),
				"model_name", "meta-llama/Llama-3.1-8B-Instruct", "engine", "0", "job", "serving/vllm", "container", "vllm",
				"endpoint", "http", "instance", fmt.Sprintf("10.%d.%d.%d:8000", n>>16, n>>8&255, n&255), "prometheus", "monitoring/k8s")
		}
		all = append(all, Sample{"v0", ls(), float64(n % 7)}, Sample{"t0", ls(), float64(at.UnixMilli()) / 1000})
	}
	return all
}

// BenchmarkRead reads an answer of 100,000 series after another and tells what
// a table holds of it.
func BenchmarkRead(b *testing.B) {
	now := time.Unix(1_700_000_000, 0)
	table := NewTable(builtin(b, "queue_depth"))
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	samples := fleet(now)
	next, _ := table.Read(samples, Reading{Evaluated: now, Now: now})
	samples = nil
	held := heap() - before
	samples = fleet(now)
	b.ReportAllocs()
	for b.Loop() {
		next, _ = next.Read(samples, Reading{Evaluated: now, Now: now})
	}
	b.ReportMetric(float64(held)/(1<<20), "MiB-table")
	if len(next.points) != 100_000 {
		b.Fatalf("%d points", len(next.points))
	}
}
