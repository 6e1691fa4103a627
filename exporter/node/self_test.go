package node

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

const (
	acceptText        = "text/plain;version=0.0.4"
	acceptOpenMetrics = "application/openmetrics-text;version=1.0.0"
)

// Self-metrics are gathered once a second, however often they are scraped and
// whether or not the source answers.
func TestSelfMetricsAreGatheredOffTheScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		n := begin(t, Options{Options: every(30 * time.Second), Source: s})
		var gathered atomic.Int64
		n.metrics.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "gathered_total"},
			func() float64 { return float64(gathered.Add(1)) }))
		pass(1500 * time.Millisecond)
		for range 20 {
			for _, accept := range []string{acceptText, acceptOpenMetrics} {
				if got := body(t, n, accept); !strings.Contains(got, "gathered_total") {
					t.Fatalf("Accept %q: not gathered after 1.5 s:\n%s", accept, got)
				}
			}
		}
		if n := gathered.Load(); n != 1 {
			t.Errorf("gathered %d times, want once", n)
		}
		hang := make(chan struct{})
		s.hang.Store(&hang)
		pass(40 * time.Second)
		if got := body(t, n, acceptText); !strings.Contains(got, "gathered_total 41\n") {
			t.Errorf("with a source that hangs the self-metrics stand still:\n%s", got)
		}
		if got := body(t, n, acceptText); !strings.Contains(got, "scrape_duration_seconds_count 40\n") {
			t.Errorf("40 scrapes before the last gathering:\n%s", got)
		}
		s.hang.Store(nil)
		close(hang)
	})
}

// A metric that cannot be gathered loses no other metric.
func TestSelfMetricsThatCannotBeGathered(t *testing.T) {
	n := New(Options{Options: every(time.Second), Source: &script{}, RuntimeMetrics: true})
	broken := prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "b", nil, nil), errors.New("it broke"))
	n.metrics.registry.MustRegister(always{broken})
	n.describe()
	if text := body(t, n, acceptText); !strings.Contains(text, "gpuscale_exporter_build_info{") {
		t.Error(text)
	}
}

type always struct{ prometheus.Metric }

func (a always) Describe(chan<- *prometheus.Desc)    {}
func (a always) Collect(ch chan<- prometheus.Metric) { ch <- a.Metric }

// An exposition is valid: each family is there once, its samples follow each other under its own header, and it ends
// where the format requires an end. A scraper that prefers protobuf, as Prometheus does for native histograms, gets
// text.
func TestExpositionIsWhole(t *testing.T) {
	const acceptProtobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," + acceptText + ";q=0.4"
	for accept, kind := range map[string]string{acceptText: "text/plain", acceptOpenMetrics: "application/openmetrics-text", acceptProtobuf: "text/plain"} {
		// In OpenMetrics client_golang's own go_memstats_alloc_bytes is both a gauge
		// and a counter.
		n := begin(t, Options{Source: &script{}, RuntimeMetrics: accept != acceptOpenMetrics})
		await.True(t, time.Minute, "ready", ready(n))
		resp := scrape(n, accept)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		body := string(text)
		families, current := map[string]int{}, ""
		for line := range strings.Lines(body) {
			words := strings.Fields(line)
			switch {
			case strings.HasPrefix(line, "# HELP "):
				current = words[2]
			case strings.HasPrefix(line, "# TYPE "):
				families[words[2]]++
				if words[2] != current {
					t.Errorf("Accept %q: the type of %s under the help of %s", accept, words[2], current)
				}
			case line != "# EOF\n" && !strings.HasPrefix(line, current):
				t.Errorf("Accept %q: under %s stands %s", accept, current, line)
			}
		}
		for name, n := range families {
			if n != 1 {
				t.Errorf("Accept %q: %s is there %d times", accept, name, n)
			}
		}
		if len(families) < 15 {
			t.Errorf("Accept %q: %d families only", accept, len(families))
		}
		want := map[string]int{acceptOpenMetrics: 1}[accept]
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || !strings.HasPrefix(got, kind) {
			t.Errorf("Accept %q: status %d, Content-Type %q", accept, resp.StatusCode, got)
		}
		if ends := strings.Count(body, "# EOF\n"); ends != want || want == 1 && !strings.HasSuffix(body, "\n# EOF\n") {
			t.Errorf("Accept %q: %d ends, want %d and that last", accept, ends, want)
		}
	}
}
