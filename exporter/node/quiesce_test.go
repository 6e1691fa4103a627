package node

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// handles is a source that counts the GPUs that it has open.
type handles struct {
	mu      sync.Mutex
	open    map[string]bool
	refuse  error
	hang    chan struct{} // Quiesce waits for it
	watched int
}

func newHandles() *handles { return &handles{open: map[string]bool{"GPU-a": true, "GPU-b": true}} }

func (h *handles) Watch([]uint16, time.Duration, map[uint16]time.Duration) {}
func (h *handles) Close() error                                            { return nil }

func (h *handles) Read() (*collect.Reading, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	r := &collect.Reading{Taken: now}
	for i, uuid := range []string{"GPU-a", "GPU-b"} {
		if h.open[uuid] {
			r.Entities = append(r.Entities, collect.Entity{Kind: collect.GPU, GPU: i, UUID: uuid, Values: []collect.Value{{Field: 203, Number: 50, Time: now}}})
		}
	}
	h.watched++
	return r, nil
}

func (h *handles) Quiesce(gpus []string) error {
	if h.hang != nil {
		<-h.hang
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse != nil {
		return h.refuse
	}
	h.open = map[string]bool{"GPU-a": true, "GPU-b": true}
	for _, uuid := range gpus {
		h.open[uuid] = false
	}
	return nil
}

func (h *handles) holds(uuid string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open[uuid]
}

// inBubble runs a test of a node on a clock of its own, on which only waiting takes time.
func inBubble(t *testing.T, source collect.Source, interval time.Duration, test func(t *testing.T, n *Node)) {
	synctest.Test(t, func(t *testing.T) {
		n := begin(t, Options{Options: every(interval), Source: source})
		synctest.Wait()
		test(t, n)
	})
}

// pass moves the bubble's clock.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestQuiesce(t *testing.T) {
	h := newHandles()
	inBubble(t, h, 30*time.Second, func(t *testing.T, n *Node) {
		began, beside := time.Now(), newHandles()
		n.opts.Beside = beside
		released, err := n.Quiesce(t.Context(), []string{"1"}, 2*time.Minute)
		if err != nil || len(released) != 1 || released[0].GPU != "GPU-b" || !released[0].Until.Equal(began.Add(2*time.Minute)) {
			t.Fatalf("released %v: %v", released, err)
		}
		if took := time.Since(began); took > releaseWithin || h.holds("GPU-b") || !h.holds("GPU-a") || beside.holds("GPU-b") {
			t.Errorf("after %s: open %v", took, h.open)
		}
		pass(time.Minute)
		if got := body(t, n); len(n.Quiesced()) != 1 || strings.Contains(got, "GPU-b") || !strings.Contains(got, `gpu_uuid="GPU-a"`) || !strings.Contains(got, "gpuscale_exporter_quiesced_gpus 1") {
			t.Errorf("while GPU-b is released:\n%s", got)
		}
		pass(2 * time.Minute) // its time is over
		if got := body(t, n); !h.holds("GPU-b") || !strings.Contains(got, "GPU-b") || !strings.Contains(got, "gpuscale_exporter_quiesced_gpus 0") {
			t.Errorf("after its time:\n%s", got)
		}
		if _, err := n.Quiesce(t.Context(), []string{"GPU-a", "GPU-b"}, 0); err != nil {
			t.Fatal(err)
		}
		pass(DefaultQuiesce - time.Minute)
		if err := n.Resume(t.Context(), []string{"GPU-a"}); err != nil || !h.holds("GPU-a") || h.holds("GPU-b") {
			t.Errorf("after GPU-a's resume: %v, open %v", err, h.open)
		}
		pass(2 * time.Minute)
		if !h.holds("GPU-b") {
			t.Error("without a time given it is for ever")
		}
	})
}

func TestQuiesceRefused(t *testing.T) {
	h := newHandles()
	inBubble(t, h, time.Second, func(t *testing.T, n *Node) {
		for _, gpus := range [][]string{nil, {"GPU-z"}, {"GPU-a", "7"}, {""}} {
			if _, err := n.Quiesce(t.Context(), gpus, 0); err == nil {
				t.Errorf("released %q", gpus)
			}
		}
		for _, d := range []time.Duration{-1, MaxQuiesce + 1} {
			if _, err := n.Quiesce(t.Context(), []string{"GPU-a"}, d); err == nil {
				t.Errorf("for %s", d)
			}
		}
		h.refuse = errors.New("in use")
		if _, err := n.Quiesce(t.Context(), []string{"GPU-a"}, 0); !errors.Is(err, h.refuse) {
			t.Errorf("error %v, want the source's", err)
		}
		h.refuse, n.opts.Beside = nil, &handles{refuse: h.refuse}
		if _, err := n.Quiesce(t.Context(), []string{"GPU-a"}, 0); err == nil || !h.holds("GPU-a") {
			t.Errorf("what is beside the source refuses: %v, and the source has released", err)
		}
		if got := n.Quiesced(); len(got) != 0 {
			t.Errorf("a failure counts as quiesced: %v", got)
		}
	})
}

// A failed request does not take effect later.
func TestQuiesceTooLate(t *testing.T) {
	h := newHandles()
	inBubble(t, h, time.Second, func(t *testing.T, n *Node) {
		_, _ = n.Quiesce(t.Context(), []string{"GPU-b"}, time.Hour)
		h.hang = make(chan struct{}) // made in the bubble, or it would stop the bubble's clock
		began := time.Now()
		_, err := n.Quiesce(t.Context(), []string{"GPU-a"}, time.Hour)
		if took := time.Since(began); err == nil || took != releaseWithin {
			t.Fatalf("after %s: %v", took, err)
		}
		if got := n.Quiesced(); len(got) != 1 || got[0].GPU != "GPU-b" || time.Since(began) != releaseWithin {
			t.Errorf("while the source hangs: %v", got)
		}
		close(h.hang)
		pass(3 * time.Second)
		if !h.holds("GPU-a") {
			t.Error("the GPU stays released for an hour after a failed request")
		}
	})
}

// The time of a release has a monotonic reading, so that setting the clock ends it neither early nor late.
func TestQuiesceWhateverTheClock(t *testing.T) {
	n := begin(t, Options{Options: every(time.Second), Source: newHandles()})
	if _, err := n.Quiesce(t.Context(), []string{"GPU-b"}, 0); err != nil {
		t.Fatal(err)
	}
	if until := n.quiesced()["GPU-b"].String(); !strings.Contains(until, " m=+") {
		t.Errorf("released until %s, which moves with the node's clock", until)
	}
}

// Before the first reading a request may come before the source is ready.
func TestQuiesceBeforeTheFirstReading(t *testing.T) {
	s := &script{}
	failure := errors.New("no host engine")
	s.fail.Store(&failure)
	inBubble(t, s, time.Second, func(t *testing.T, n *Node) {
		if _, err := n.Quiesce(t.Context(), []string{"GPU-a"}, 0); err != nil {
			t.Error(err)
		}
		if err := n.Resume(t.Context(), []string{"GPU-a"}); err != nil {
			t.Error(err)
		}
		if _, err := n.Quiesce(t.Context(), []string{"0"}, 0); err == nil {
			t.Error("GPU 0 is not known yet")
		}
	})
}
