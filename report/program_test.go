package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
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
				cmd := exec.Command(program, "--prometheus="+url, "--since=30d", "--until="+generated.Format(time.RFC3339), "--quiet", "--out="+filepath.Join(b.TempDir(), "r.html"))
				if out, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() != exitIncomplete {
					b.Fatalf("%v\n%s", err, out)
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
	if err != nil {
		b.Fatal(err)
	}
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
	if err != nil {
		b.Fatal(err)
	}
	data := largeOver(gpus, plan.Window)
	ids := map[string]query.ID{}
	for _, a := range plan.Asked {
		ids[a.PromQL] = a.ID
	}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		promql := r.FormValue("query")
		id, known := ids[promql]
		v := data.Vectors[id]
		switch {
		case known && strings.HasSuffix(r.URL.Path, "/query_range"):
			writeMatrix(out, data.Lines[id], moment(r, "start"), moment(r, "end"))
			return
		case known:
			for _, l := range data.Lines[id] {
				v = append(slices.Clip(v), prom.Sample{Labels: l.Labels, Value: l.Points[len(l.Points)-1].Value})
			}
		case strings.HasPrefix(promql, "count"), strings.HasPrefix(promql, "max(count_over_time("):
			v = explored(promql)
		default:
			b.Errorf("query unknown to the fake: %s", promql)
		}
		writeVector(out, v, moment(r, "time"))
	}))
	b.Cleanup(server.Close)
	return server.URL
}

func moment(r *http.Request, name string) time.Time {
	seconds, _ := strconv.ParseFloat(r.FormValue(name), 64)
	return time.UnixMilli(int64(seconds * 1000))
}

// writeMatrix writes what lines have from a time to another.
func writeMatrix(w io.Writer, lines []prom.Line, from, to time.Time) {
	text := []byte(`{"status":"success","data":{"resultType":"matrix","result":[`)
	first := true
	for _, l := range lines {
		begin, _ := slices.BinarySearchFunc(l.Points, from, func(p prom.Point, t time.Time) int { return p.Time.Compare(t) })
		points := l.Points[begin:]
		if len(points) == 0 || points[0].Time.After(to) {
			continue
		}
		text = element(text, &first, l.Labels, `"values":[`)
		for i, p := range points {
			if p.Time.After(to) {
				break
			}
			if i > 0 {
				text = append(text, ',')
			}
			text = point(text, p.Time, p.Value)
		}
		text = append(text, "]}"...)
		if len(text) > 1<<20 {
			_, _ = w.Write(text)
			text = text[:0]
		}
	}
	_, _ = w.Write(append(text, "]}}"...))
}

func writeVector(w io.Writer, v prom.Vector, at time.Time) {
	text := []byte(`{"status":"success","data":{"resultType":"vector","result":[`)
	first := true
	for _, s := range v {
		text = element(text, &first, s.Labels, `"value":`)
		text = append(point(text, at, s.Value), '}')
	}
	_, _ = w.Write(append(text, "]}}"...))
}

// element begins one of an answer, up to its values.
func element(text []byte, first *bool, labels prom.Labels, values string) []byte {
	if !*first {
		text = append(text, ',')
	}
	*first = false
	text = append(text, `{"metric":{`...)
	comma := ""
	for name, value := range labels.Map() {
		text = append(text, comma...)
		text = strconv.AppendQuote(append(strconv.AppendQuote(text, name), ':'), value)
		comma = ","
	}
	return append(append(text, "},"...), values...)
}

func point(text []byte, at time.Time, v float64) []byte {
	text = strconv.AppendInt(append(text, '['), at.Unix(), 10)
	text = strconv.AppendFloat(append(text, `,"`...), v, 'g', -1, 64)
	return append(text, `"]`...)
}
