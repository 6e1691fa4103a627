package agent

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/fakenvml"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
)

// TestDoubts: where the agent cannot be sure that it is the right card, or that
// nobody uses it, it touches nothing.
func TestDoubts(t *testing.T) {
	const before = "1g.10gb@0 1g.10gb@1"
	for name, test := range map[string]struct {
		change func(*bench, *partition.Record)
		why    string
	}{
		// An index is another card's as soon as one falls off.
		"no UUID": {func(_ *bench, r *partition.Record) { r.UUID = "" }, "by its UUID"},
		"cut by somebody else meanwhile": {func(_ *bench, r *partition.Record) { r.Before = "1g.10gb@0 2g.20gb@2" },
			"decided on something else: card 0 is cut into"},
		"in MIG mode since": {func(_ *bench, r *partition.Record) { r.Whole, r.Before = true, "empty" }, "MIG mode is on"},
		"out of MIG mode since": {func(b *bench, _ *partition.Record) {
			b.set(fakenvml.State{Driver: fixedDriver, Cards: []fakenvml.Card{h100(b.t, 0, "-")}})
		},
			"MIG mode is off"},
		"a process that is in no instance": {func(b *bench, _ *partition.Record) { b.state.Cards[0].PID = 77; b.set(b.state) }, "is busy"},
		"a kubelet that was just started":  {func(b *bench, _ *partition.Record) { b.self = "gpuscale-system/agent-x" }, "has not found its pods yet"},
		"a selector of half the node":      {func(b *bench, _ *partition.Record) { b.api.plugins = make([]string, maxPlugins+1) }, "is devicePlugin right?"},
		// It must fit into the diary, or the diary is lost.
		"a long story": {func(b *bench, _ *partition.Record) { b.exporter.refuse = strings.Repeat("no ", 10000) }, "no no"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, before))
			b.order(before, "2g.20gb@0", func(r *partition.Record) { test.change(b, r) })
			b.tick()
			if a := b.answer(); a.State != partition.AgentRestored || a.Touched || !strings.Contains(a.Message, test.why) {
				t.Errorf("answer %+v, want restored because of %q", a, test.why)
			}
			if n := b.machine().Changes; n != 0 {
				t.Errorf("%d changes of the hardware", n)
			}
		})
	}
}

// TestSeveralComputeInstances: an instance of which any part is given to a pod is
// held.
func TestSeveralComputeInstances(t *testing.T) {
	i := hardware.Instance{UUID: "MIG-a", More: []string{"MIG-b", "MIG-c"}}
	if got := holder(i, map[string]string{"MIG-c": "team/p"}); got != "team/p" {
		t.Errorf("held by %q", got)
	}
}

// TestLostDiary: an operation is to be undone and the agent's diary is gone or
// cannot be read. What the card is tells whether there is anything to undo.
func TestLostDiary(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	for name, test := range map[string]struct {
		card, diary string
		change      func(*bench)
		state       partition.AgentState
		want, why   string
	}{
		"half cut, gone":         {"1g.10gb@4", "", nil, partition.AgentRestored, before, ""},
		"half cut, broken":       {"1g.10gb@4", `{"id":`, nil, partition.AgentRestored, before, ""},
		"cut, a megabyte":        {"2g.20gb@4", strings.Repeat("x", 1<<20), nil, partition.AgentRestored, before, ""},
		"as it was":              {before, "", nil, partition.AgentRestored, before, ""},
		"half cut, switched off": {"1g.10gb@4", "", func(b *bench) { b.config.Freeze = true }, partition.AgentFailed, "1g.10gb@4", "freeze: true"},
		"the card is away": {"1g.10gb@4", "", func(b *bench) { b.state.Cards[0].Lost = true; b.set(b.state) }, partition.AgentFailed, "1g.10gb@4",
			"fallen off"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, test.card))
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
				t.Errorf("the card is %s, want %s", got, test.want)
			}
		})
	}
}

// TestLostDiaryOnTheWay: the diary is broken while the card is half cut and nobody
// has asked for it back. The agent does not take half a card for an untouched one.
func TestLostDiaryOnTheWay(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.order(before, "2g.20gb@4")
	b.api.set(partition.AgentAnnotation, "{")
	b.tick()
	if a := b.answer(); a.State != partition.AgentRestored || b.layout() != before {
		t.Errorf("%+v, %s", a, b.layout())
	}
}

// TestExporterIsAskedAgain: a cut that takes long does not find the exporter back on
// the card; and one that was killed leaves it no longer away than needed.
func TestExporterIsAskedAgain(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	j := &job{a: b.agent(), record: partition.Record{ID: "op-1", UUID: "GPU-0"}}
	for range 2 {
		if err := j.quiesce(t.Context(), []string{"GPU-0"}); err != nil {
			t.Fatal(err)
		}
	}
	if b.exporter.asked != 1 {
		t.Errorf("asked %d times, want once", b.exporter.asked)
	}
	j.quietAt = j.quietAt.Add(-quietFor / 2)
	if err := j.quiesce(t.Context(), []string{"GPU-0"}); err != nil || b.exporter.asked != 2 {
		t.Errorf("after half of the time: asked %d times, %v", b.exporter.asked, err)
	}
	killed := &job{a: b.agent(), record: j.record, answer: partition.Answer{Touched: true}}
	killed.resume(t.Context())
	if b.exporter.isQuiet("GPU-0") {
		t.Error("the exporter was not called back by the next agent")
	}
}

// claimer is a kubelet on a node with DRA.
type claimer struct {
	podresources.UnimplementedPodResourcesListerServer
	driver string
}

func (c claimer) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{Namespace: "team", Name: "p",
		Containers: []*podresources.ContainerResources{{
			Devices: []*podresources.ContainerDevices{{ResourceName: "acme.com/slice", DeviceIds: []string{"MIG-7::1"}}},
			DynamicResources: []*podresources.DynamicResource{{ClaimName: "c", ClaimNamespace: "team",
				ClaimResources: []*podresources.ClaimResource{{DriverName: c.driver}}}},
		}}}}}, nil
}

// TestKubeletClaims: a claim for a card is held by somebody, and it is not said
// which; a device counts whatever resource the plugin offers it as.
func TestKubeletClaims(t *testing.T) {
	for driver, want := range map[string]string{claimDriver: "by claim team/c", "net.example.com": ""} {
		socket := filepath.Join(newDir(t), "k.sock")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		podresources.RegisterPodResourcesListerServer(server, claimer{driver: driver})
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		k, err := DialKubelet(socket, "team/p")
		if err != nil {
			t.Fatal(err)
		}
		held, err := k.Held(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", driver, err, want)
		}
		if err == nil && held["MIG-7"] != "team/p" {
			t.Errorf("held %v", held)
		}
	}
}

// TestReportIsWritten: where it says something else, and once in a while to say that
// it still holds; and it says of which Node and boot.
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
		{time.Second, func() { b.kubelet.give("MIG-0-was-0", "p") }, 0}, // its period is not over
		{10 * time.Second, func() { b.kubelet.give("MIG-0-was-0", "p") }, 1},
		// The node's clock is set back: what stands there is from the future.
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
	if r := b.report(); r.Cards[0].Instances[0].Holder != "team/p" {
		t.Errorf("report %+v", r)
	}
}

// TestTwoAgents: the second waits until the first has ended, however it ended.
func TestTwoAgents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := Lock(t.Context(), path, func() { t.Error("waits for nobody") })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := Lock(ctx, path, cancel); err != context.Canceled {
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
