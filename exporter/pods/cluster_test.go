package pods

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// asked is an API server that notes when it was asked.
type asked struct{ at []time.Duration }

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	a.at = append(a.at, time.Since(bubble))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"items":[]}`)), Request: r}, nil
}

// bubble is when a synctest begins.
var bubble = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// However often the kubelet's answers change, two questions lie apart, and what
// is written down after a change is asked for ten seconds after it.
func TestClusterIsAskedApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &asked{}
		c := newCluster(Options{
			API: &API{Base: "http://kube.test", Client: &http.Client{Transport: a}}, Node: "node-1",
			Labels: true, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); c.run(ctx, func() {}) }()
		defer func() { cancel(); <-done }()
		for _, at := range []time.Duration{33 * time.Second, 33 * time.Second, 33500 * time.Millisecond} {
			time.Sleep(at - time.Since(bubble))
			c.poke()
			synctest.Wait()
		}
		time.Sleep(59*time.Second - time.Since(bubble))
		synctest.Wait()
		want := []time.Duration{33 * time.Second, 35 * time.Second, 45 * time.Second}
		if len(a.at) != len(want) {
			t.Fatalf("asked at %v, want at %v", a.at, want)
		}
		for i := range want {
			if a.at[i] != want[i] {
				t.Errorf("asked at %v, want at %v", a.at, want)
			}
		}
	})
}
