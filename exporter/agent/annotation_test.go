package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/internal/require"
)

// fakeGPUs records which GPUs are released, and until when.
type fakeGPUs struct {
	mu     sync.Mutex
	away   map[string]time.Time
	refuse error
}

func newFakeGPUs() *fakeGPUs { return &fakeGPUs{away: map[string]time.Time{}} }

func (h *fakeGPUs) Quiesce(_ context.Context, gpus []string, d time.Duration) ([]node.Release, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return nil, h.refuse
	}
	if d == 0 {
		d = node.DefaultQuiesce
	}
	var out []node.Release
	for _, c := range gpus {
		h.away[c] = time.Now().Add(d)
		out = append(out, node.Release{GPU: c, Until: h.away[c]})
	}
	return out, nil
}

func (h *fakeGPUs) Resume(_ context.Context, gpus []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range gpus {
		delete(h.away, c)
	}
	return nil
}

// Quiesced reacquires GPUs whose time is over, as a node does with its next reading.
func (h *fakeGPUs) Quiesced() (out []node.Release) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.away, func(_ string, until time.Time) bool { return !time.Now().Before(until) })
	for _, c := range slices.Sorted(maps.Keys(h.away)) {
		out = append(out, node.Release{GPU: c, Until: h.away[c]})
	}
	return out
}

func (h *fakeGPUs) until(device string) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.away[device]
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func state(t *testing.T, k *kube) report {
	t.Helper()
	var r report
	if text := k.annotation(AnnotationAnswer); text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &r))
	}
	return r
}

// follow runs a follower in a bubble of time until stop.
func follow(t *testing.T, k *kube, h *fakeGPUs) (stop func()) {
	f := NewFollower(k.api(), "node-1", h, func(string, error) {}, discard())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	synctest.Wait()
	return func() { cancel(); running.Wait(); synctest.Wait() }
}

func TestAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, h := newKube(t), newFakeGPUs()
		stop := follow(t, k, h)
		pass(time.Minute)
		k.annotate(AnnotationRequest, `{"id":"op-1","gpus":["GPU-a"],"seconds":120}`)
		asked := time.Now()
		pass(5 * time.Second)
		if got := state(t, k); got.ID != "op-1" || got.State != stateReleased || len(got.Released) != 1 || got.Released[0].GPU != "GPU-a" || !h.until("GPU-a").Equal(asked.Add(2*time.Minute)) {
			t.Fatalf("within 5 s: %+v, until %s", got, h.until("GPU-a"))
		}
		// Another request reacquires the first GPU.
		k.annotate(AnnotationRequest, `{"id":"op-2","gpus":["GPU-b"],"seconds":60}`)
		pass(time.Second)
		if got := state(t, k); got.ID != "op-2" || got.State != stateReleased || !h.until("GPU-a").IsZero() || h.until("GPU-b").IsZero() {
			t.Errorf("after another request: %+v, away %v", got, h.away)
		}
		pass(time.Minute)
		if got := state(t, k); got.ID != "op-2" || got.State != stateResumed {
			t.Errorf("after its time: %+v", got)
		}
		k.annotate(AnnotationRequest, `{"id":"op-3","gpus":["GPU-a"]}`)
		pass(time.Second)
		k.annotate(AnnotationRequest, "")
		pass(time.Second)
		if got := k.annotation(AnnotationAnswer); got != "" || !h.until("GPU-a").IsZero() {
			t.Errorf("after its removal: %q, away %v", got, h.away)
		}
		stop()
		for _, call := range k.calls {
			if !slices.Contains([]string{
				"GET /api/v1/nodes/node-1", "PATCH /api/v1/nodes/node-1/status",
				"GET /api/v1/nodes?fieldSelector=metadata.name%3Dnode-1&resourceVersion=7&timeout=5m0s&timeoutSeconds=300&watch=true",
			}, call) {
				t.Errorf("the API was asked for %s", call)
			}
		}
	})
}

// The answer names the GPUs that are released, also after another request has reacquired a GPU or released it for
// longer.
func TestAnnotationBesideTheSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, h := newKube(t), newFakeGPUs()
		k.annotate(AnnotationRequest, `{"id":"op-1","gpus":["GPU-a","GPU-b"],"seconds":60}`)
		stop := follow(t, k, h)
		_ = h.Resume(t.Context(), []string{"GPU-a"})
		pass(2 * reconcileEvery)
		if got := state(t, k); got.State != stateReleased || len(got.Released) != 1 || got.Released[0].GPU != "GPU-b" {
			t.Errorf("GPU-a is reacquired: %+v", got)
		}
		_, _ = h.Quiesce(t.Context(), []string{"GPU-b"}, 10*time.Minute)
		pass(2 * time.Minute)
		if got := state(t, k); got.State != stateReleased || len(got.Released) != 1 || !got.Released[0].Until.Equal(h.until("GPU-b")) {
			t.Errorf("GPU-b is released for longer: %+v", got)
		}
		stop()
		restarted := newFakeGPUs()
		stop = follow(t, k, restarted)
		if away := slices.Collect(maps.Keys(restarted.away)); !slices.Equal(away, []string{"GPU-b"}) {
			t.Errorf("released after a restart: %v", away)
		}
		_ = restarted.Resume(t.Context(), []string{"GPU-b"})
		pass(2 * reconcileEvery)
		if got := state(t, k); got.State != stateResumed || len(got.Released) > 0 {
			t.Errorf("both are reacquired: %+v", got)
		}
		stop()
	})
}

func TestAnnotationRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, h := newKube(t), newFakeGPUs()
		defer follow(t, k, h)()
		k.annotate(AnnotationRequest, `{"id":"op-1","gpus":["GPU-a"],"second":120}`)
		pass(time.Second)
		if got := state(t, k); got.State != stateFailed || !strings.Contains(got.Error, "second") {
			t.Errorf("a misspelt field: %+v", got)
		}
		h.refuse = errors.New("DCGM does not answer")
		k.annotate(AnnotationRequest, `{"id":"op-2","gpus":["GPU-a"]}`)
		pass(time.Second)
		refused := func(when string) {
			if got := state(t, k); got.ID != "op-2" || got.State != stateFailed || !strings.Contains(got.Error, "DCGM does not answer") {
				t.Errorf("%s: %+v", when, got)
			}
		}
		refused("a source that refuses")
		restarted := newFakeGPUs()
		follow(t, k, restarted)()
		if refused("after a restart"); len(restarted.away) > 0 {
			t.Errorf("a request that has failed is carried out: %v", restarted.away)
		}
		// The answer is still written once the API server accepts writes again.
		h.refuse, k.refuse = nil, http.StatusServiceUnavailable
		k.annotate(AnnotationRequest, `{"id":"op-3","gpus":["GPU-a"]}`)
		pass(10 * time.Second)
		k.mu.Lock()
		k.refuse = 0
		k.mu.Unlock()
		pass(2 * reconcileEvery)
		if got := state(t, k); got.ID != "op-3" || got.State != stateReleased {
			t.Errorf("after the API server is back: %+v", got)
		}
	})
}

// A restart during a release keeps its end.
func TestAnnotationAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, first, second := newKube(t), newFakeGPUs(), newFakeGPUs()
		k.annotate(AnnotationRequest, `{"id":"op-1","gpus":["GPU-a"],"seconds":120}`)
		ends := time.Now().Add(2 * time.Minute)
		follow(t, k, first)()
		pass(time.Minute)
		stop := follow(t, k, second)
		if got := second.until("GPU-a"); !got.Equal(ends) {
			t.Errorf("released until %s, want %s", got, ends)
		}
		pass(time.Minute + time.Second)
		if got := state(t, k); got.State != stateResumed {
			t.Errorf("after its time: %+v", got)
		}
		stop()
		third := newFakeGPUs()
		stop = follow(t, k, third)
		if got := state(t, k); got.State != stateResumed || !third.until("GPU-a").IsZero() {
			t.Errorf("an order that is over is carried out again: %+v", got)
		}
		stop()
	})
}

func FuzzParseOrder(f *testing.F) {
	f.Add(`{"id":"op-1","gpus":["GPU-a"],"seconds":120}`)
	f.Add(`{"id":"","gpus":[]}`)
	f.Add(`{"id":"x","gpus":["0"],"seconds":-1} {}`)
	f.Fuzz(func(t *testing.T, text string) {
		o, err := parseOrder(text)
		if err == nil && (o.ID == "" || len(o.GPUs) == 0 || len(o.GPUs) > maxGPUs || o.Seconds < 0 || o.Seconds > 3600) {
			t.Errorf("accepted %+v", o)
		}
		if err != nil && !strings.Contains(err.Error(), AnnotationRequest) {
			t.Errorf("%v does not say which annotation", err)
		}
	})
}

// A watch that ends at once does not make the exporter send requests in a loop.
func TestWatchThatEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, h := newKube(t), newFakeGPUs()
		k.closesEarly = true
		defer follow(t, k, h)()
		pass(time.Minute)
		k.mu.Lock()
		calls := len(k.calls)
		k.mu.Unlock()
		if calls < 2*20 || calls > 2*61 {
			t.Errorf("%d requests in a minute, want one GET and one watch every one or two seconds", calls)
		}
		k.annotate(AnnotationRequest, `{"id":"op-1","gpus":["GPU-a"]}`)
		pass(5 * time.Second)
		if got := state(t, k); got.State != stateReleased {
			t.Errorf("not followed all the same: %+v", got)
		}
	})
}
