package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/query"
)

// BenchmarkProgram measures CPU and memory of the program for a report of 30 days, decoding included. The chart's
// resources follow from it. The fake Prometheus answers at once, so seconds are CPU time.
func BenchmarkProgram(b *testing.B) {
	program := filepath.Join(b.TempDir(), "gpuscale-report")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, gpus := range []int{1000, 10_000} {
		b.Run(strconv.Itoa(gpus)+" GPUs", func(b *testing.B) {
			url := largePrometheus(b, gpus, 30*24*time.Hour)
			var peak, seconds float64
			for b.Loop() {
				page := filepath.Join(b.TempDir(), "r.html")
				cmd := exec.Command(program, "--prometheus-url="+url, "--since=30d", "--until="+generated.Format(time.RFC3339), "--quiet", "--out="+page)
				if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != exitIncomplete {
					b.Fatalf("%v\n%s", err, out)
				}
				if info, err := os.Stat(page); err != nil || info.Size() > 500_000 {
					b.Fatalf("the page has %d bytes: %v", info.Size(), err)
				}
				used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
				peak = max(peak, float64(used.Maxrss)/1024) // KiB on Linux
				seconds += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
			}
			b.ReportMetric(peak, "MiB-peak")
			b.ReportMetric(seconds/float64(b.N), "cpu-s/op")
		})
	}
}

// row is a series of a large cluster, and its value at a time.
type row struct {
	labels labels.Labels
	value  func(at time.Time) float64
}

// largePrometheus serves the answers of large. It has no PromQL engine: an unknown query
// is an error.
func largePrometheus(b *testing.B, gpus int, length time.Duration) string {
	b.Helper()
	w, err := query.NewWindow(generated, length)
	require.NoError(b, err)
	w.Scrape = 15 * time.Second
	rows, ids := large(gpus), map[string]query.ID{}
	rest := int(w.Length().Minutes()) % 1440 // of the last piece
	for _, a := range (query.Dialect{}).Asks(w, query.FromExporter, query.FromAutoscaler) {
		for _, piece := range []string{"24h", fmt.Sprintf("%dm", rest), fmt.Sprintf("%dm", 1440+rest)} {
			ids[strings.ReplaceAll(a.PromQL, "PIECE", piece)] = a.ID
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		question, at := r.FormValue("query"), moment(r.FormValue("time"))
		one := func(v int) { serveAnswer(out, promql.Vector{{T: at.UnixMilli(), F: float64(v)}}, nil) }
		id, known := ids[question]
		switch {
		case known && strings.HasSuffix(r.URL.Path, "/query_range"):
			step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
			all := promql.Matrix{}
			for _, row := range rows[id] {
				s := promql.Series{Metric: row.labels}
				for at := moment(r.FormValue("start")); !at.After(moment(r.FormValue("end"))); at = at.Add(time.Duration(step * float64(time.Second))) {
					s.Floats = append(s.Floats, promql.FPoint{T: at.UnixMilli(), F: row.value(at)})
				}
				all = append(all, s)
			}
			serveAnswer(out, all, nil)
		case known:
			all := promql.Vector{}
			for _, row := range rows[id] {
				all = append(all, promql.Sample{Metric: row.labels, T: at.UnixMilli(), F: row.value(at)})
			}
			serveAnswer(out, all, nil)
		case strings.Contains(question, metric.Exported), strings.Contains(question, "cluster"), strings.Contains(question, "generation_tokens"), strings.HasPrefix(question, "group by"):
			serveAnswer(out, promql.Vector{}, nil)
		case strings.HasPrefix(question, "count(present_over_time("):
			one(250) // rows of the ledger
		case strings.HasPrefix(question, "count(count by"):
			one(gpus / 8)
		case strings.HasPrefix(question, "max(count_over_time("):
			one(40) // a scrape each 15 s
		default:
			b.Errorf("query unknown to the fake: %s", question)
		}
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// large are the answers of a Prometheus about a number of GPUs: eight on a node, half of them with two MIG instances,
// allocated in turn to 40 namespaces, with an autoscaler.
func large(gpus int) map[query.ID][]row {
	all := map[query.ID][]row{}
	constant := func(id query.ID, v float64, pairs ...string) {
		all[id] = append(all[id], row{labels.FromStrings(pairs...), func(time.Time) float64 { return v }})
	}
	counter := func(id query.ID, rate float64, pairs ...string) {
		all[id] = append(all[id], row{labels.FromStrings(pairs...), func(at time.Time) float64 { return rate * float64(at.Unix()) }})
	}
	const model = "NVIDIA H100 80GB HBM3"
	for n := range gpus / 8 {
		constant(query.Nodes, 8, "node", fmt.Sprint("node-", n), "model", model)
	}
	for p := range 10 {
		at := []string{"instance", "a", "pool", fmt.Sprint("pool-", p), "model", "H100-80GB"}
		share := float64(gpus) / 10
		counter(query.Capacity, share, at...)
		for ns := range 4 {
			for _, place := range []string{"busy", "slack", "idle"} {
				counter(query.Places, share/16, append(at, "tenant", fmt.Sprint("team-", ns), "namespace", fmt.Sprint("ns-", p*4+ns), "place", place)...)
			}
		}
		counter(query.Places, share/4, append(at, "tenant", "(none)", "namespace", "(none)", "place", "free")...)
		constant(query.GPUs, share, append(at, "state", "free")...)
		for _, kind := range []string{"min", "max", "size"} {
			constant(query.PoolNodes, share/8, append(at, "kind", kind)...)
		}
	}
	for c := range gpus {
		device := []string{"node", fmt.Sprint("node-", c/8), "gpu", fmt.Sprint(c % 8), "gpu_uuid", fmt.Sprint("GPU-", c)}
		entity := append(device[4:6:6], "namespace", fmt.Sprint("ns-", c%40), "pod", fmt.Sprintf("work-%d-7d4b9cf6d8-b2c4d", c/4))
		if c%2 == 0 {
			entity = append(entity, "gpu_instance_id", "1", "profile", "3g.40gb")
			constant(query.Instances, 1, append(device, "gpu_instance_id", "1", "profile", "3g.40gb", "start", "0", "size", "4")...)
		}
		constant(query.AllocatedTo, 1, entity...)
		constant(query.IdleFor, 1, entity...)
		constant(query.MemoryP99, 0.05, append(entity, "model", model)...)
		constant(query.UseP95, 0.05, append(entity, "model", model)...)
		constant(query.Devices, 1, append(device, "model", model)...)
	}
	return all
}
