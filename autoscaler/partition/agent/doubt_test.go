package agent

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// TestSeveralComputeInstances: an instance is allocated if any part of it is.
func TestSeveralComputeInstances(t *testing.T) {
	i := hardware.Instance{UUID: "MIG-a", More: []string{"MIG-b", "MIG-c"}}
	if got := allocatedTo(i, map[string]string{"MIG-c": "team/p"}); got != "team/p" {
		t.Errorf("allocated to %q", got)
	}
}

// TestLostAnnotation: during an operation or its undo, the agent's annotation is missing or
// unreadable. The GPU's state decides what is to be undone: a half repartitioned GPU does not count
// as untouched.
func TestLostAnnotation(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	for name, test := range map[string]struct {
		device, diary string
		change        func(*bench)
		state         partition.AgentState
		want, why     string
	}{
		"half done, missing":      {"1g.10gb@4", "", nil, partition.AgentRestored, before, ""},
		"half done, broken":       {"1g.10gb@4", `{"id":`, nil, partition.AgentRestored, before, ""},
		"done, a megabyte":        {"2g.20gb@4", strings.Repeat("x", 1<<20), nil, partition.AgentRestored, before, ""},
		"as it was":               {before, "", nil, partition.AgentRestored, before, ""},
		"half done, on the way":   {"1g.10gb@4", "{", func(b *bench) { b.order(before, "2g.20gb@4") }, partition.AgentRestored, before, ""},
		"half done, switched off": {"1g.10gb@4", "", func(b *bench) { b.config.Freeze = true }, partition.AgentFailed, "1g.10gb@4", "freeze: true"},
		"the GPU is away": {"1g.10gb@4", "", func(b *bench) { b.state.GPUs[0].Lost = true; b.set(b.state) }, partition.AgentFailed, "1g.10gb@4",
			"fallen off"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, test.device))
			b.order(before, "2g.20gb@4", func(r *partition.Record) { r.Undo = &partition.Undo{Since: b.now, Attempts: 1} })
			b.api.set(partition.AgentAnnotation, test.diary)
			if test.change != nil {
				test.change(b)
			}
			b.tick()
			if a := b.answer(); a.State != test.state || !strings.Contains(a.Message, test.why) {
				t.Errorf("answer %+v, want %s because of %q", a, test.state, test.why)
			}
			if got := b.layout(); got != test.want {
				t.Errorf("the GPU is %s, want %s", got, test.want)
			}
		})
	}
}

// TestExporterIsQuiescedAgain: during a long operation the exporter does not reacquire the GPU; after
// a killed one it does so early.
func TestExporterIsQuiescedAgain(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	j := &job{a: b.agent(), record: partition.Record{ID: "op-1", UUID: fakenvml.GPUUUID(0)}}
	for range 2 {
		if err := j.quiesce(t.Context(), []string{fakenvml.GPUUUID(0)}); err != nil {
			t.Fatal(err)
		}
	}
	if b.exporter.asked != 1 {
		t.Errorf("asked %d times, want once", b.exporter.asked)
	}
	j.quiescedAt = j.quiescedAt.Add(-quiesceFor / 2)
	if err := j.quiesce(t.Context(), []string{fakenvml.GPUUUID(0)}); err != nil || b.exporter.asked != 2 {
		t.Errorf("after half of the time: asked %d times, %v", b.exporter.asked, err)
	}
	killed := &job{a: b.agent(), record: j.record, answer: partition.Answer{Touched: true}}
	killed.resume(t.Context())
	if b.exporter.isQuiesced(fakenvml.GPUUUID(0)) {
		t.Error("the exporter was not called back by the next agent")
	}
}

// TestKubeletClaims: the device of a GPU claim is unknown, which is an error; a device counts under
// any resource name.
func TestKubeletClaims(t *testing.T) {
	for driver, want := range map[string]string{claimDriver: "by claim team/c", "net.example.com": ""} {
		socket := filepath.Join(newDir(t), "k.sock")
		kubelet := serveKubelet(t, socket)
		kubelet.resource, kubelet.driver = "acme.com/slice", driver
		kubelet.give("MIG-7::1", "p")
		k, err := DialKubelet(socket, "team/p")
		if err != nil {
			t.Fatal(err)
		}
		allocated, err := k.Allocations(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", driver, err, want)
		}
		if err == nil && allocated["MIG-7"] != "team/p" {
			t.Errorf("allocated %v", allocated)
		}
	}
}

// TestReportIsWritten: a report is written when it changes, and periodically; it names Node and
// boot.
func TestReportIsWritten(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	a := b.agent()
	tick := func() {
		t.Helper()
		if err := a.Tick(t.Context()); err != nil {
			t.Error(err)
		}
	}
	tick()
	r := b.report()
	if r.Node != "uid-n" || r.Boot != "boot-1" || !r.At.Equal(start) || r.Driver != fixedDriver {
		t.Fatalf("report %+v", r)
	}
	for _, step := range []struct {
		after  time.Duration
		change func()
		writes int
	}{
		{partition.ReportEvery - 10*time.Second, nil, 0},
		{10 * time.Second, nil, 1},
		{time.Second, func() { b.kubelet.give(fakenvml.MIGUUID(0, 0), "p") }, 0}, // its period is not over
		{10 * time.Second, func() { b.kubelet.give(fakenvml.MIGUUID(0, 0), "p") }, 1},
		// The node's clock is set back: the report on the node is in the future.
		{-time.Hour, nil, 1},
		{10 * time.Second, func() { b.api.set(partition.LayoutAnnotation, "{") }, 1},
	} {
		n := len(b.api.writes())
		b.now = b.now.Add(step.after)
		if step.change != nil {
			step.change()
		}
		tick()
		if got := len(b.api.writes()) - n; got != step.writes {
			t.Errorf("%s later: %d writes %q, want %d", step.after, got, b.api.writes()[n:], step.writes)
		}
	}
	if r := b.report(); r.GPUs[0].Instances[0].AllocatedTo != "team/p" {
		t.Errorf("report %+v", r)
	}
}

// TestTwoAgents: the second waits until the first has ended, however it ended.
func TestTwoAgents(t *testing.T) { synctest.Test(t, testTwoAgents) }

func testTwoAgents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := Lock(t.Context(), path, func() { t.Error("without a lock file it does not wait") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Lock(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("the second got the lock: %v", err)
	}
	again, err := Lock(t.Context(), path, release)
	if err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := Lock(t.Context(), filepath.Join(path, "no"), nil); err == nil || !strings.Contains(err.Error(), "lockFile") {
		t.Errorf("a path that cannot be: %v", err)
	}
	if release, err := Lock(t.Context(), "", nil); err != nil {
		t.Error(err)
	} else {
		release()
	}
}
