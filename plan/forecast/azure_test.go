package forecast

import (
	"bufio"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

// trace is the hour of requests to a public service that the project's data
// folder holds beside the repository; it is not part of it.
const trace = "../../../shared/data/AzureLLMInferenceTrace_conv.csv"

// TestAzure prints how the methods do on requests per second in steps of ten
// seconds of a real service.
func TestAzure(t *testing.T) {
	points := requestsPerSecond(t, 10*time.Second)
	last := points[len(points)-1].At
	for _, f := range Make(points, Query{Now: last, Step: 10 * time.Second,
		Horizons: []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute}}) {
		t.Log(f)
		if !f.Enough {
			t.Errorf("%v: %s", f.Horizon, f.Why)
			continue
		}
		if mase := get(f.Error.MASE); !(mase <= 1) {
			t.Errorf("%v: MASE %v: worse than the last value, which was a candidate", f.Horizon, mase)
		}
		if c := get(f.Error.Coverage); !(c > 0.6 && c < 0.95) {
			t.Errorf("%v: an interval meant to hold 0.8 allocated %v", f.Horizon, c)
		}
	}
}

// TestAzureProvisioning replays the same hour: replicas that carry half a request
// a second and take two minutes to be there are ordered every ten seconds for what
// the forecast says at its high end, and, to compare, for what was the last value
// times whatever costs as many replica-hours.
func TestAzureProvisioning(t *testing.T) {
	points := requestsPerSecond(t, 10*time.Second)
	const ahead, each = 12, 0.5
	var ordered, last, came []float64
	for i := 80; i+ahead < len(points); i++ {
		f := Make(points[:i+1], Query{Now: points[i].At, Step: 10 * time.Second, Horizons: []time.Duration{2 * time.Minute}})[0]
		if !f.Enough {
			t.Fatalf("step %d: %s", i, f.Why)
		}
		ordered, last, came = append(ordered, math.Ceil(get(f.High)/each)), append(last, points[i].Number), append(came, points[i+ahead].Number)
	}
	cost, short := served(ordered, came, each)
	times := 1.0
	naive, naiveShort := 0.0, 0.0
	for ; naive < cost; times += 0.01 {
		replicas := make([]float64, len(last))
		for i, x := range last {
			replicas[i] = math.Ceil(times * x / each)
		}
		naive, naiveShort = served(replicas, came, each)
	}
	t.Logf("forecast: %.2f replica-hours, too few in %.1f %% of %d steps; last value × %.2f: %.2f replica-hours, too few in %.1f %%",
		cost, 100*short, len(came), times, naive, 100*naiveShort)
	if short > 0.2 {
		t.Errorf("the high end of an 80 %% interval was too little %.2f of the time, want about 0.1", short)
	}
	if short >= naiveShort {
		t.Errorf("too few replicas in %.3f of the steps, the last value at the same cost in %.3f", short, naiveShort)
	}
}

// served returns the replica-hours of ten-second steps, and the share of steps in
// which the replicas did not carry what came.
func served(replicas, came []float64, each float64) (hours, short float64) {
	for i, n := range replicas {
		hours += n * 10 / 3600
		if n*each < came[i] {
			short += 1 / float64(len(came))
		}
	}
	return hours, short
}

// requestsPerSecond counts the trace's lines in whole steps; it skips the test
// where there is no trace.
func requestsPerSecond(t *testing.T, step time.Duration) []sample.Point {
	file, err := os.Open(trace)
	if err != nil {
		t.Skipf("the trace is not there: %v", err)
	}
	defer file.Close()
	var counts []float64
	var first time.Time
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		stamp, _, _ := strings.Cut(lines.Text(), ",")
		at, err := time.Parse("2006-01-02 15:04:05.9999999", stamp)
		if err != nil {
			continue // the heading
		}
		if first.IsZero() {
			first = at
		}
		i := int(at.Sub(first) / step)
		for len(counts) <= i {
			counts = append(counts, 0)
		}
		counts[i]++
	}
	if err := lines.Err(); err != nil || len(counts) < 100 {
		t.Fatalf("%s: %d steps read: %v", trace, len(counts), err)
	}
	var points []sample.Point
	for i, n := range counts[:len(counts)-1] { // the last step is cut short
		points = append(points, sample.Point{At: first.Add(time.Duration(i+1) * step), Number: n / step.Seconds()})
	}
	return points
}
