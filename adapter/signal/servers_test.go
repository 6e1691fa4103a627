package signal

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// scrapes of a page: more than the longest built-in window.
const scrapes = 30

// scrape is a server's page as Prometheus has it after many scrapes without honor_labels: gauges have been constant,
// and counters and histograms have grown evenly from zero to the page's values.
func scrape(t testing.TB, file, pod string) *memstore.Server {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	target := map[string]string{"namespace": "chat", "pod": pod, "job": "servers", "instance": "10.0.0.1:8000"}
	var all memstore.Series
	add := func(name string, pairs []*dto.LabelPair, le string, value float64, grows bool) {
		b := labels.NewBuilder(labels.EmptyLabels())
		b.Set(labels.MetricName, name)
		for _, p := range pairs {
			own := p.GetName()
			if target[own] != "" {
				own = "exported_" + own
			}
			b.Set(own, p.GetValue())
		}
		if le != "" {
			b.Set(labels.BucketLabel, le)
		}
		for name, value := range target {
			b.Set(name, value)
		}
		one := promql.Series{Metric: b.Labels()}
		for i := range scrapes {
			v := value
			if grows {
				v *= float64(i) / (scrapes - 1)
			}
			one.Floats = append(one.Floats, memstore.At(epoch.Add(time.Duration(i)*step), v))
		}
		all = append(all, promql.NewStorageSeries(one))
	}
	for name, f := range families {
		for _, s := range f.Metric {
			switch f.GetType() {
			case dto.MetricType_GAUGE:
				add(name, s.Label, "", s.GetGauge().GetValue(), false)
			case dto.MetricType_COUNTER:
				add(name, s.Label, "", s.GetCounter().GetValue(), true)
			case dto.MetricType_HISTOGRAM:
				h := s.GetHistogram()
				for _, b := range h.Bucket {
					add(name+"_bucket", s.Label, strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64), float64(b.GetCumulativeCount()), true)
				}
				add(name+"_sum", s.Label, "", h.GetSampleSum(), true)
				add(name+"_count", s.Label, "", float64(h.GetSampleCount()), true)
			default:
				t.Fatalf("%s: %s is a %s", file, name, f.GetType())
			}
		}
	}
	return new(memstore.Over(all))
}

var (
	// Two engines: queues add up, caches average, and of the two latencies (0.375 and 0.235) the larger counts.
	vllm = map[string]float64{"queue_depth": 7, "requests_running": 14, "kv_cache_usage": .6, "ttft_p95": .375, "queue_time_p95": .8, "queue_time_mean": .2}
	// Tensor-parallel ranks repeat the values of their data-parallel one. 8 requests wait to be scheduled, and 1 for KV
	// cache.
	sglang = map[string]float64{"queue_depth": 9, "requests_running": 12, "kv_cache_usage": .3, "ttft_p95": .3, "queue_time_p95": .8, "queue_time_mean": .2}
	picker = map[string]float64{"queue_depth": 6, "requests_running": 30, "kv_cache_usage": .65, "queue_time_p95": .75, "queue_time_mean": .15}
	// 2 requests wait in the engine, 5 before it.
	lmdeploy = map[string]float64{"queue_depth": 7, "requests_running": 12, "kv_cache_usage": .45, "ttft_p95": .375, "queue_time_p95": .8, "queue_time_mean": .2}
)

// The expected signals of each server's page, computed by hand from the page. Signals that are not named have no
// answer.
var pages = map[string]map[string]float64{
	"vllm-0.8":  {"queue_depth": 3, "requests_running": 8, "kv_cache_usage": .42, "ttft_p95": .375, "queue_time_p95": .8, "queue_time_mean": .2},
	"vllm-0.11": vllm, "vllm-rust": vllm, "vllm-escaped": vllm, "vllm-kserve": vllm,
	// Two replicas of Ray add up as engines do, and requests that wait for a replica are not in the replicas' queues.
	"vllm-ray-2.50": {"queue_depth": 43, "requests_running": 9, "kv_cache_usage": .4, "ttft_p95": .375, "queue_time_p95": .8, "queue_time_mean": .2},
	"vllm-ray-2.40": {"queue_depth": 22, "requests_running": 9, "kv_cache_usage": .4},
	"sglang-0.5":    sglang,
	// As Prometheus 2 stores it.
	"sglang-escaped": sglang,
	"sglang-ray":     sglang,
	// Microseconds and milliseconds come out as seconds; a mean is no p95.
	"triton-25.06": {"queue_depth": 13, "ttft_p95": 1.25, "queue_time_mean": .02},
	// 4 requests wait in the backend, and 1 and 2 for a backend.
	"triton-trtllm-25.06": {"queue_depth": 7, "requests_running": 11, "kv_cache_usage": .55},
	"trtllm-serve-1.1":    {"queue_depth": 6, "requests_running": 12, "kv_cache_usage": .35, "ttft_p95": .375, "queue_time_p95": .8, "queue_time_mean": .2},
	"trtllm-dynamo-0.7":   {"ttft_p95": .375, "queue_time_p95": .8, "queue_time_mean": .2},
	"lmdeploy-0.16":       lmdeploy,
	"lmdeploy-escaped":    lmdeploy,
	"tgi-3.3":             {"queue_depth": 5, "requests_running": 16, "queue_time_p95": .8, "queue_time_mean": .2},
	"nim-1.8":             {"queue_depth": 4, "requests_running": 9, "kv_cache_usage": .35, "ttft_p95": .375},
	"tei-1.8":             {"queue_depth": 6, "queue_time_p95": .8, "queue_time_mean": .2},
	"llama-server-b10621": {"queue_depth": 4, "requests_running": 2},
	"ray-serve-2.50":      {"queue_depth": 7, "requests_running": 3},
	// Each value is there under its old name as well, and counts once.
	"ray-serve-next":      {"queue_depth": 7, "requests_running": 3},
	"dynamo-frontend-1.0": {"queue_depth": 13, "requests_running": 21, "ttft_p95": .375},
	// Without the names that Dynamo is to remove.
	"dynamo-frontend-next": {"queue_depth": 13, "requests_running": 21, "ttft_p95": .375},
	"dynamo-worker-0.7":    {"kv_cache_usage": .45},
	"dynamo-worker-1.0":    {"kv_cache_usage": .45},
	// No queue and a pool that is not empty: the queue is unknown.
	"gaie-epp-0.3": {"requests_running": 30, "kv_cache_usage": .65},
	"gaie-epp-1.5": picker,
	// Each value is also there under its old name, and counts once.
	"llm-d-epp-0.9": picker, "llm-d-epp-kserve": picker,
	"gpuscale-exporter":  {"gpu_busy": .6, "gpu_share": 1, "gpu_memory_used_ratio": .5},
	"dcgm-exporter-4.4":  {"gpu_busy": .7, "gpu_tensor_active": .2, "gpu_dram_active": .5},
	"dcgm-exporter-next": {"gpu_busy": .7, "gpu_tensor_active": .2, "gpu_dram_active": .5},
}

func TestServers(t *testing.T) {
	files, err := filepath.Glob("testdata/servers/*.prom")
	if err != nil || len(files) != len(pages) {
		t.Fatalf("%d pages, %d expected, %v", len(files), len(pages), err)
	}
	hit := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".prom")
		t.Run(name, func(t *testing.T) {
			want, there := pages[name]
			if !there {
				t.Fatal("nothing is expected of this page")
			}
			m := scrape(t, file, "server-0")
			for _, rule := range Builtin(maxAge) {
				table, dropped, now := ask(t, m, NewTable(rule), (scrapes-1)*step)
				pod := "server-0"
				if rule.Subject == Exported {
					pod = "vllm-0"
				}
				a, err := table.Pod(Key{"chat", pod}, anything, now)
				value, known := want[rule.Name]
				switch {
				case known && (err != nil || math.Abs(a.Value-value) > 1e-9 || !a.Time.Equal(now)):
					t.Errorf("%s: %+v, %v, want %v (dropped %v)", rule.Name, a, err, value, dropped)
				case !known && err == nil:
					t.Errorf("%s: %v, want no answer", rule.Name, a.Value)
				}
				for p := range table.About(Key{"chat", pod}, k8slabels.Everything(), now) {
					if p.Dropped == "" {
						hit[rule.Name+" "+rule.Sources[p.Source].Metric] = true
					}
				}
			}
		})
	}
	for _, rule := range Builtin(maxAge) {
		for _, s := range rule.Sources {
			if !hit[rule.Name+" "+s.Metric] {
				t.Errorf("no page has %s for %s", s.Metric, rule.Name)
			}
		}
	}
}
