package model

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

// half is a 3g.40gb instance of an H100-80GB.
var half = Slice{Compute: 3, GPUCompute: 7, Memory: 4, GPUMemory: 8, Bytes: 40 << 30}

// fleet is a gateway with its own clock, at speed 1.
type fleet struct {
	*Gateway
	at time.Duration
}

func newFleet() *fleet {
	f := &fleet{}
	f.Gateway = NewGateway(Chat13B(), 1, func() time.Time { return time.Unix(0, 0).Add(f.at) })
	return f
}

func (f *fleet) Advance(to time.Duration) {
	f.at = to
	f.lock()()
}

func steady(n int, every time.Duration) trace.Trace {
	var t trace.Trace
	for i := range n {
		t.Requests = append(t.Requests, trace.Request{At: time.Duration(i) * every, Context: 1155, Generated: 211})
	}
	return t
}

func TestSpeedFollowsTheSlice(t *testing.T) {
	done := func(s Slice) int {
		f := newFleet()
		require.NoError(t, f.Add("a", s, 0))
		require.NoError(t, f.Play(steady(2000, time.Millisecond)))
		f.Advance(200 * time.Second)
		if l, _ := f.Load("a"); l.Busy < 190*time.Second || f.find("a").usage() < 0.7 {
			t.Errorf("a saturated server was busy for %s of 200 s, KV use %.2f", l.Busy, f.find("a").usage())
		}
		return f.Counts().Done
	}
	small, whole := done(half), done(Slice{7, 7, 8, 8, 80 << 30})
	if small < 160 || small > 260 || whole < 2*small {
		t.Errorf("in 200 s a whole GPU did %d requests, 3g did %d; want about one a second, and more than twice that", whole, small)
	}
}

func TestAModelThatDoesNotFitIsRefused(t *testing.T) {
	f := newFleet()
	if err := f.Add("a", Slice{1, 7, 1, 8, 10 << 30}, 0); err == nil {
		t.Error("26 GiB of weights went into 10 GiB")
	}
	if err := f.Add("a", Slice{}, 0); err == nil {
		t.Error("a slice of nothing was accepted")
	}
}

func TestDispatchGoesToTheFewestWaiting(t *testing.T) {
	f := newFleet()
	require.NoError(t, f.Add("a", half, 0))
	require.NoError(t, f.Play(steady(100, 0)))
	f.Advance(time.Second)
	require.NoError(t, f.Add("b", half, 0))
	before := len(f.find("a").waiting)
	require.NoError(t, f.Play(steady(10, 0)))
	f.Advance(time.Second)
	if n := len(f.find("a").waiting); n > before {
		t.Errorf("a's queue grew from %d to %d while b was empty", before, n)
	}
	if b := f.find("b"); len(b.waiting)+len(b.running) != 10 {
		t.Errorf("b got %d of 10", len(b.waiting)+len(b.running))
	}
}

func TestRequestsWaitAtTheGatewayWhileTheModelLoads(t *testing.T) {
	f := newFleet()
	require.NoError(t, f.Add("a", half, 10*time.Second))
	require.NoError(t, f.Play(steady(3, 0)))
	f.Advance(9 * time.Second)
	if c := f.Counts(); c.Queued != 3 {
		t.Fatalf("before the model is loaded: %+v", c)
	}
	if l, ok := f.Load("a"); !ok || l.Ready || l.MemoryBytes != 0 {
		t.Errorf("a loading server has load %+v", l)
	}
	f.Advance(60 * time.Second)
	if c := f.Counts(); c.Done != 3 {
		t.Fatalf("after it: %+v", c)
	}
	if w, ok := f.Wait(0.95); !ok || w != 10*time.Second {
		t.Errorf("p95 wait %s, %v; want 10s", w, ok)
	}
}

func TestUnknownIsNotZero(t *testing.T) {
	f := newFleet()
	if _, ok := f.Wait(0.95); ok {
		t.Error("a wait is known before any request")
	}
	if _, ok := f.Load("unknown"); ok {
		t.Error("an unknown server has a load")
	}
}

// TestRequestsAreConserved adds and removes servers at random. After every step no request may be lost or
// added.
func TestRequestsAreConserved(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := newFleet()
		tr, err := trace.Synthetic{Seed: seed, Length: 5 * time.Minute, Base: 1, Peak: 6}.Make()
		require.NoError(t, err)
		require.NoError(t, f.Play(tr))
		alive, next := []string{}, 0
		for step := range 300 {
			now := time.Duration(step) * time.Second
			switch rng.IntN(12) {
			case 0:
				id := fmt.Sprint(next)
				next++
				require.NoError(t, f.Add(id, half, time.Duration(rng.IntN(20))*time.Second))
				alive = append(alive, id)
			case 1:
				if len(alive) > 0 {
					i := rng.IntN(len(alive))
					f.Remove(alive[i])
					alive = append(alive[:i], alive[i+1:]...)
				}
			}
			f.Advance(now)
			conserved(t, f, len(tr.Requests))
		}
		require.NoError(t, f.Add("last", half, 0))
		f.Advance(24 * time.Hour)
		conserved(t, f, len(tr.Requests))
		if c := f.Counts(); c.Done != len(tr.Requests) {
			t.Fatalf("seed %d: in the end %+v, want all %d done", seed, c, len(tr.Requests))
		}
	}
}

func conserved(t *testing.T, f *fleet, total int) {
	t.Helper()
	c := f.Counts()
	if c.Arrived != c.Queued+c.Waiting+c.Running+c.Done || c.Arrived+c.Left != total {
		t.Fatalf("at %s: %+v, of %d", f.now, c, total)
	}
	for _, s := range f.servers {
		kv := 0
		for _, r := range s.running {
			kv += r.tokens()
		}
		if kv != s.kv || len(s.running) > 1 && kv > s.engine.kvTokens {
			t.Fatalf("server %s has %d tokens, counts %d, of %d", s.id, kv, s.kv, s.engine.kvTokens)
		}
	}
}

func TestTheSameMovesGiveTheSameOutcome(t *testing.T) {
	run := func(step time.Duration) (Counts, time.Duration) {
		f := newFleet()
		require.NoError(t, f.Add("a", half, 0))
		require.NoError(t, f.Add("b", half, 30*time.Second))
		require.NoError(t, f.Play(steady(300, 700*time.Millisecond)))
		for at := time.Duration(0); at <= 10*time.Minute; at += step {
			f.Advance(at)
		}
		w, _ := f.Wait(0.95)
		return f.Counts(), w
	}
	c1, w1 := run(10 * time.Millisecond)
	c2, w2 := run(7 * time.Second)
	if c1 != c2 || w1 != w2 {
		t.Errorf("fine steps: %+v %s; coarse steps: %+v %s", c1, w1, c2, w2)
	}
}
