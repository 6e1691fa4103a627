package main

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

// BenchmarkRequest measures one request of an HPA to the API server as main builds it, with TLS, authentication and
// authorization, over HTTP/2 as from the aggregator: go test -bench Request -cpuprofile.
func BenchmarkRequest(b *testing.B) {
	kube := newFakeKube(b)
	server := startServer(b, kube, &answering{})
	client := server.client(b, kube.frontProxyCA, "front-proxy-client")
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	header := http.Header{"X-Remote-User": {"hpa"}}
	var took []time.Duration
	b.ReportAllocs()
	for b.Loop() {
		began := time.Now()
		if code, body := server.get(b, client, queueDepth, header); code != http.StatusOK {
			b.Fatal(code, body)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}
