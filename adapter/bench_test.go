package main

import (
	"net/http"
	"testing"
)

// BenchmarkRequest is what one request of an HPA costs the API server as main builds it,
// TLS, authentication and authorization included: go test -bench Request -cpuprofile.
func BenchmarkRequest(b *testing.B) {
	kube := newFakeKube(b)
	server := startServer(b, kube, &answering{})
	client := server.client(b, kube.frontProxyCA, "front-proxy-client")
	header := http.Header{"X-Remote-User": {"hpa"}}
	b.ReportAllocs()
	for b.Loop() {
		if code, body := server.get(b, client, queueDepth, header); code != http.StatusOK {
			b.Fatal(code, body)
		}
	}
}
