package cache

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// BenchmarkRead is one interval of a rule over 50 namespaces of 20 pods: 2,000 samples are
// divided, and made the next tables of their namespaces.
func BenchmarkRead(b *testing.B) {
	rule := signal.Builtin(time.Minute)[3] // queue_depth
	c := New(Setup{Backends: []Backend{{Name: DefaultBackend}}, Rules: []signal.Rule{rule}}, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
	var units []*unit
	var names []string
	var read prom.Vector
	at := time.Now()
	for n := range 50 {
		name := fmt.Sprintf("team-%d", n)
		names = append(names, name)
		u, err := c.ask(c.rules[rule.Name].Question, name, at)
		require.NoError(b, err)
		units = append(units, u)
		for p := range 20 {
			for _, part := range []string{"v0", "t0"} {
				read = append(read, prom.Sample{Value: float64(at.Unix()), Time: at, Labels: prom.FromMap(map[string]string{
					"namespace": name, "pod": fmt.Sprintf("vllm-%d", p), "model_name": "m", "engine": "0", "job": "vllm", "instance": "10.0.0.1:8000", signal.PartLabel: part,
				})})
				if part == "v0" {
					read[len(read)-1].Value = 3
				}
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(time.Millisecond) // an answer of the same moment would be a repeated one
		c.distribute(units, names, answer{read, signal.Reading{Evaluated: at, Now: at}})
	}
}
