package cache

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// BenchmarkRefresh asks, decodes and builds the table of one rule over 100,000
// pods: 200,000 samples, over HTTP. The goal is 1 s of processor time, which is
// a fifth of one core at the default interval.
func BenchmarkRefresh(b *testing.B) {
	body := hundredThousand(time.Now())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	b.Cleanup(server.Close)
	client, err := prom.New(prom.Config{URL: server.URL, Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	rule := only("queue_depth")
	rule.MaxAge = time.Hour
	c, err := New(setup(client, rule), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	e := c.plan.Load().rules[rule.Name]
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := c.refresh(b.Context(), e, e.Query); err != nil {
			b.Fatal(err)
		}
	}
}

func hundredThousand(now time.Time) []byte {
	var body strings.Builder
	body.WriteString(`{"status":"success","data":{"resultType":"vector","result":[`)
	seconds := float64(now.UnixMilli()) / 1000
	for n := range 100_000 {
		for _, part := range []string{"v0", "t0"} {
			if body.Len() > 100 {
				body.WriteByte(',')
			}
			value := "3"
			if part == "t0" {
				value = fmt.Sprintf("%.3f", seconds)
			}
			fmt.Fprintf(&body, `{"metric":{"engine":"0",%q:%q,"instance":"10.0.%d.%d:8000","job":"vllm","model_name":"llama","namespace":"team-%d","pod":"vllm-%d-6b5d9c4f7-x%04d"},"value":[%.3f,%q]}`,
				signal.PartLabel, part, n/256, n%256, n/100, n/10, n%10_000, seconds, value)
		}
	}
	body.WriteString(`]}}`)
	return []byte(body.String())
}
