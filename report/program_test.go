package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/query"
)

// BenchmarkProgram: CPU and memory of the program for a report of 30 days, decoding
// included. The chart's resources follow it. The fake Prometheus answers at once, so
// seconds are CPU time.
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

// asked is a query.Prometheus without series that reports some: the fake learns from it
// which queries come.
type asked struct {
	answer func(promql string) prom.Vector
}

func (a asked) Query(_ context.Context, promql string, _ time.Time) (prom.Vector, error) {
	return a.answer(promql), nil
}

func (a asked) Range(context.Context, string, time.Time, time.Time, time.Duration) ([]prom.Line, error) {
	return nil, nil
}

// largePrometheus serves the answers of large. It has no PromQL engine: an unknown query
// is an error.
func largePrometheus(b *testing.B, gpus int, length time.Duration) string {
	b.Helper()
	w, err := query.NewWindow(generated, length)
	require.NoError(b, err)
	explored := func(promql string) prom.Vector {
		one := func(v int) prom.Vector { return prom.Vector{{Value: float64(v)}} }
		switch {
		case strings.Contains(promql, metric.Exported), strings.Contains(promql, "cluster"), strings.Contains(promql, "generation_tokens"):
			return nil
		case strings.HasPrefix(promql, "count(present_over_time("):
			return one(250) // rows of the ledger
		case strings.HasPrefix(promql, "count(count by"):
			return one(gpus / 8)
		case strings.HasPrefix(promql, "max(count_over_time("):
			return one(40) // a scrape each 15 s
		}
		return nil
	}
	plan, err := query.Run(b.Context(), asked{explored}, w, query.Options{})
	require.NoError(b, err)
	data := large(gpus, plan.Window)
	ids := map[string]query.ID{}
	for _, a := range plan.Asked {
		ids[a.PromQL] = a.ID
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		question := r.FormValue("query")
		id, known := ids[question]
		if known && strings.HasSuffix(r.URL.Path, "/query_range") {
			serveAnswer(out, within(data.Lines[id], moment(r.FormValue("start")), moment(r.FormValue("end"))), nil)
			return
		}
		v := data.Vectors[id]
		switch {
		case known:
			for _, l := range data.Lines[id] {
				v = append(slices.Clip(v), prom.Sample{Labels: l.Labels, Value: l.Points[len(l.Points)-1].Value})
			}
		case strings.HasPrefix(question, "count"), strings.HasPrefix(question, "max(count_over_time("):
			v = explored(question)
		default:
			b.Errorf("query unknown to the fake: %s", question)
		}
		result := promql.Vector{}
		for _, s := range v {
			result = append(result, promql.Sample{Metric: s.Labels, T: moment(r.FormValue("time")).UnixMilli(), F: s.Value})
		}
		serveAnswer(out, result, nil)
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// within is what lines have from a time to another.
func within(lines []prom.Line, from, to time.Time) promql.Matrix {
	all := promql.Matrix{}
	for _, l := range lines {
		s := promql.Series{Metric: l.Labels}
		for _, p := range l.Points {
			if !p.Time.Before(from) && !p.Time.After(to) {
				s.Floats = append(s.Floats, promql.FPoint{T: p.Time.UnixMilli(), F: p.Value})
			}
		}
		if len(s.Floats) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// large are the answers of a Prometheus about so many GPUs: eight a node, half of them
// with two MIG instances, allocated in turn to 40 namespaces, with an autoscaler.
func large(gpus int, w query.Window) query.Answers {
	a := query.Answers{Window: w, Exporter: true, Autoscaler: true, Lines: map[query.ID][]prom.Line{}, Vectors: map[query.ID]prom.Vector{}}
	add := func(id query.ID, step time.Duration, value func(i int) float64, pairs ...string) {
		g := w.Grid(step)
		l := prom.Line{Labels: labels.FromStrings(pairs...)}
		for i := range g.N + 1 {
			l.Points = append(l.Points, prom.Point{Time: g.At(i), Value: value(i)})
		}
		a.Lines[id] = append(a.Lines[id], l)
	}
	constant := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	const model = "NVIDIA H100 80GB HBM3"
	for n := range gpus / 8 {
		add(query.Nodes, w.Step, constant(8), "node", fmt.Sprint("node-", n), "model", model)
	}
	second := w.Ledger.Seconds()
	for p := range 10 {
		pool := fmt.Sprint("pool-", p)
		share := float64(gpus) / 10
		add(query.Capacity, w.Ledger, func(i int) float64 { return share * second * float64(i) }, "instance", "a", "pool", pool, "model", "H100-80GB")
		for ns := range 4 {
			for _, place := range []string{"busy", "slack", "idle"} {
				add(query.Places, w.Ledger, func(i int) float64 { return share / 16 * second * float64(i) }, "instance", "a", "pool", pool, "model", "H100-80GB",
					"tenant", fmt.Sprint("team-", ns), "namespace", fmt.Sprint("ns-", p*4+ns), "place", place)
			}
		}
		add(query.Places, w.Ledger, func(i int) float64 { return share / 4 * second * float64(i) }, "instance", "a", "pool", pool, "model", "H100-80GB", "tenant", "(none)", "namespace", "(none)", "place", "free")
		add(query.GPUs, w.Coarse, constant(share), "pool", pool, "model", "H100-80GB", "state", "free")
		for _, kind := range []string{"min", "max", "size"} {
			add(query.PoolNodes, w.Coarse, constant(share/8), "pool", pool, "kind", kind)
		}
	}
	for c := range gpus {
		uuid, ns, pod := fmt.Sprint("GPU-", c), fmt.Sprint("ns-", c%40), fmt.Sprintf("work-%d-7d4b9cf6d8-b2c4d", c/4)
		entity := []string{"gpu_uuid", uuid, "namespace", ns, "pod", pod}
		if c%2 == 0 {
			entity = append(entity, "gpu_instance_id", "1", "profile", "3g.40gb")
			a.Vectors[query.Instances] = append(a.Vectors[query.Instances], prom.Sample{Labels: labels.FromStrings("node", fmt.Sprint("node-", c/8), "gpu", fmt.Sprint(c%8), "gpu_uuid", uuid, "gpu_instance_id", "1", "profile", "3g.40gb", "start", "0", "size", "4"), Value: 1})
		}
		add(query.AllocatedTo, w.Coarse, constant(1), entity...)
		add(query.IdleFor, w.Coarse, constant(1000), entity...)
		for _, id := range []query.ID{query.MemoryP99, query.UseP95} {
			a.Lines[id] = append(a.Lines[id], prom.Line{Labels: labels.FromStrings(append(entity, "model", model)...), Points: []prom.Point{{Time: w.Until, Value: 0.05}}})
		}
		a.Vectors[query.Devices] = append(a.Vectors[query.Devices], prom.Sample{Labels: labels.FromStrings("node", fmt.Sprint("node-", c/8), "gpu_uuid", uuid, "model", model), Value: 1})
	}
	return a
}
