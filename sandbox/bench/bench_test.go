package main

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
)

// TestBound: the burst is the one cluster-autoscaler was measured with.
func TestBound(t *testing.T) {
	for pods, nodes := range map[int]int{1: 1, 20: 11, 200: 113, 500: 281, 2000: 1125} {
		if got := bound(pods); got != nodes {
			t.Errorf("%d pods need %d nodes, want %d", pods, got, nodes)
		}
	}
}

func TestParse(t *testing.T) {
	for args, good := range map[string]bool{"": true, "-nodes 7500 -pods 20 -idle 1s": true, "-pods 0": false, "-nodes 0": false, "-idle 0s": false, "-what": false} {
		if _, err := parse(strings.Fields(args), io.Discard); (err == nil) != good {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestExportersAreTrusted: the autoscaler's reader accepts the fake's responses, and a pod's
// allocation is stable.
func TestExportersAreTrusted(t *testing.T) {
	pods := []*corev1.Pod{podOf("a", "n", 3), podOf("waits", "", 2)}
	e := newExporters(func() []*corev1.Node { return []*corev1.Node{nodeOf("n")} }, func() []*corev1.Pod { return pods })
	server := httptest.NewServer(e)
	defer server.Close()
	read, err := prom.New(prom.Config{URL: server.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	want := func(all ...string) {
		t.Helper()
		if r, err := observe.Read(t.Context(), read, trust.From([]string{system}), time.Now()); err != nil || r.Taken.IsZero() {
			t.Fatal(r, err)
		}
		v, err := read.Query(t.Context(), "gpu_held", time.Time{})
		if err != nil || len(v) != len(all) {
			t.Fatalf("%v, %v; want %v", v, err, all)
		}
		for i, s := range v {
			if got := s.Labels.Get("gpu") + " " + s.Labels.Get("pod"); got != all[i] {
				t.Errorf("GPU and pod %q, want %q", got, all[i])
			}
		}
	}
	want("0 a", "1 a", "2 a")
	pods = []*corev1.Pod{podOf("later", "n", 1), pods[0]}
	want("0 a", "1 a", "2 a", "3 later")
}
