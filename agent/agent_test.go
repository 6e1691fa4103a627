package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestChartKnowsTheFields: the chart's schema has the fields of this configuration, so that Helm refuses others.
func TestChartKnowsTheFields(t *testing.T) {
	const file = "../deploy/chart/gpuscale/values.schema.json"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	made, err := chart.Configured(text, "agentConfig", reflect.TypeFor[Config]())
	require.NoError(t, err)
	golden.Equal(t, file, made)
}

// TestPodStartsWhileTheExporterReleases: a pod that was bound before the cordon may be allocated an instance while the
// exporter releases the GPU. So the kubelet is asked again right before an instance is destroyed.
func TestPodStartsWhileTheExporterReleases(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@0 1g.10gb@1"))
	before := b.layout()
	b.exporter.then = func() { b.kubelet.give(fakenvml.MIGUUID(0, 0), "late") }
	b.order("1g@0:1 1g@1:1", "2g@0:2")
	b.tick()
	if got := b.layout(); got != before {
		t.Errorf("the layout is %s, was %s", got, before)
	}
	if a := b.answer(); a.State != contract.AgentRestored || !strings.Contains(a.Message, "late") {
		t.Errorf("answer %+v", a)
	}
}

// TestRepartitionAroundBusyInstance: idle instances are destroyed, new ones get exact placements, busy
// ones keep running; the exporter releases and reacquires the GPU, the device plugin is restarted.
func TestRepartitionAroundBusyInstance(t *testing.T) {
	b := newBench(t, h100(t, 0, "!3g.40gb@0 1g.10gb@4 1g.10gb@5 1g.10gb@6"), h100(t, 1, "!7g.80gb@0"))
	b.order("3g@0:4 1g@4:1 1g@5:1 1g@6:1", "3g@0:4 3g@4:4") // in slices, as the autoscaler writes
	b.tick()
	if got := b.layout(); got != "3g.40gb@0 3g.40gb@4" {
		t.Errorf("layout %s", got)
	}
	if busy := b.machine().GPUs[0].Instances[0]; !slices.Equal(busy.Computes, fakenvml.Whole(fakenvml.MIGUUID(0, 0))) || busy.Values["compute"] == "" {
		t.Errorf("the busy instance is now %+v", busy)
	}
	if a := b.answer(); a.State != contract.AgentDone || a.ID != "op-1" {
		t.Errorf("answer %+v", a)
	}
	want := []string{"working: destroy 1g@4:1", "working: destroy 1g@5:1", "working: destroy 1g@6:1", "working: create 3g@4:4",
		"working: restart the device plugin", "delete plugin-0", "done: restart the device plugin", "write gpuscale.io/mig-layout"}
	if got := b.api.writes(); !slices.Equal(got[:7], want[:7]) {
		t.Errorf("writes %q, want %q", got, want)
	}
	if b.exporter.asked != 2 || b.exporter.isQuiesced(fakenvml.GPUUUID(0)) {
		t.Errorf("the exporter was asked %d times, quiesced %v", b.exporter.asked, b.exporter.quiesced)
	}
	r := b.report()
	if r.Problem != "" || len(r.GPUs) != 2 || r.GPUs[0].Instances[1].Place != "3g@4:4" {
		t.Errorf("report %+v", r)
	}
	if specs, err := contract.ParseTables(b.api.get(contract.TableAnnotation)); err != nil || len(specs) != 1 || specs[0].Model != "H100-80GB" {
		t.Errorf("tables %v: %v", specs, err)
	}
	// No further change follows, and the agent's annotation is removed with the record.
	n := len(b.api.writes())
	b.tick()
	b.api.set(contract.RecordAnnotation, "")
	b.tick()
	if got := b.api.writes()[n:]; !slices.Equal(got, []string{"remove gpuscale.io/mig-agent"}) {
		t.Errorf("then: %q", got)
	}
}

// TestUnknownProduct: a product in no built-in table is repartitioned by the driver's own table, which is published,
// around busy instances.
func TestUnknownProduct(t *testing.T) {
	spec, err := mig.ParseSpec("X900 4 8 131072 0 1g.32gb:0,2,4,6:2:4 2g.64gb:0,4:4:2 4g.128gb:0:8:1")
	require.NoError(t, err)
	layout, err := mig.ParseSlices("2g@0:4 2g@4:4")
	require.NoError(t, err)
	b := newBench(t, fakenvml.GPU{UUID: fakenvml.GPUUUID(0), Name: "NVIDIA X900", MemoryMiB: spec.MemoryMiB, MIG: true, Spec: spec, Instances: []fakenvml.Instance{
		{ID: 1, Placement: layout[0], Computes: fakenvml.Whole(fakenvml.MIGUUID(0, 0)), Values: fakenvml.Busy(1000)}, {ID: 2, Placement: layout[1], Computes: fakenvml.Whole(fakenvml.MIGUUID(0, 1))},
	}})
	b.order("2g@0:4 2g@4:4", "2g@0:4 1g@4:2 1g@6:2", func(r *contract.Record) { r.Model = "X900" })
	b.tick()
	if got := b.layout(); got != "2g.64gb@0 1g.32gb@4 1g.32gb@6" || b.answer().State != contract.AgentDone {
		t.Errorf("layout %s, answer %+v", got, b.answer())
	}
	if specs, err := contract.ParseTables(b.api.get(contract.TableAnnotation)); err != nil || len(specs) != 1 || specs[0].String() != spec.String() {
		t.Errorf("tables %v: %v", specs, err)
	}
}

// TestRefuses: an operation that must not start leaves the GPU unchanged, with the reason. So does uncertainty about
// which GPU is meant or how it is used.
func TestRefuses(t *testing.T) {
	type record = contract.Record
	const before = "1g.10gb@0 1g.10gb@1"
	for name, test := range map[string]struct {
		change func(*bench, *record)
		why    string
	}{
		"busy instance":        {func(_ *bench, r *record) { r.Target = "3g.40gb@4" }, "1g@0:1 is busy"},
		"given to a pod":       {func(b *bench, _ *record) { b.kubelet.give(fakenvml.MIGUUID(0, 1)+"::3", "p") }, "1g@1:1 is busy"},
		"driver with the CVE":  {func(b *bench, _ *record) { b.state.Driver = "570.86.10" }, "CVE-2026-24197"},
		"off by configuration": {func(b *bench, _ *record) { b.config.Freeze = true }, "freeze: true"},
		"mig-manager runs too": {func(b *bench, _ *record) {
			b.api.label("nvidia.com/gpu.deploy.mig-manager", "true")
			b.api.label(contract.ConfigLabel, "all-1g.10gb")
		}, "mig-manager runs there too"},
		"off by annotation":       {func(b *bench, _ *record) { b.api.set(OffAnnotation, "please") }, OffAnnotation},
		"no device plugin":        {func(b *bench, _ *record) { b.api.plugins = nil }, "is devicePlugin right?"},
		"the exporter holds on":   {func(b *bench, _ *record) { b.exporter.refuse = "stuck" }, "stuck"},
		"no exporter":             {func(b *bench, _ *record) { b.config.Exporter.Socket += "x" }, "exporter.by: none"},
		"no kubelet":              {func(b *bench, _ *record) { b.config.KubeletSocket += "x" }, "reading allocations from the kubelet"},
		"an illegal target":       {func(_ *bench, r *record) { r.Target = "1g.10gb@0 3g.40gb@2" }, "may start at"},
		"an unknown profile":      {func(_ *bench, r *record) { r.Target = "5g.50gb@0" }, "5g"},
		"the deadline has passed": {func(b *bench, _ *record) { b.now = b.now.Add(time.Hour) }, "deadline"},
		"the GPU fell off":        {func(b *bench, _ *record) { b.state.GPUs[0].Lost = true }, "fallen off"},
		"another GPU":             {func(b *bench, _ *record) { b.state.GPUs[0].UUID = fakenvml.GPUUUID(7) }, "is not there"},
		// After a GPU falls off the bus, the index belongs to another GPU.
		"no UUID": {func(_ *bench, r *record) { r.UUID = "" }, "is not there"},
		"repartitioned meanwhile": {func(_ *bench, r *record) { r.Before = "1g.10gb@0 2g.20gb@2" },
			"decided on another layout: GPU 0 is partitioned into"},
		"out of MIG mode since":            {func(b *bench, _ *record) { b.state.GPUs[0] = h100(b.t, 0, "-") }, "MIG mode is off"},
		"a process that is in no instance": {func(b *bench, _ *record) { b.state.GPUs[0].Values = fakenvml.Busy(77) }, "1g@1:1 is busy"},
		"a kubelet that was just started":  {func(b *bench, _ *record) { b.self = "gpuscale-system/agent-x" }, "its list is not complete yet"},
		"a selector of half the node":      {func(b *bench, _ *record) { b.api.plugins = make([]string, maxPlugins+1) }, "is devicePlugin right?"},
		// The answer must fit into the annotation, or it counts as lost.
		"a long story": {func(b *bench, _ *record) { b.exporter.refuse = strings.Repeat("no ", 10000) }, "no no"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, "!1g.10gb@0 1g.10gb@1"))
			b.order(before, "1g.10gb@0", func(r *contract.Record) { test.change(b, r) })
			b.set(b.state)
			was := b.layout()
			b.tick()
			if a := b.answer(); a.State != contract.AgentRestored || a.Touched || !strings.Contains(a.Message, test.why) {
				t.Errorf("answer %+v, want restored because of %q", a, test.why)
			}
			if got := b.layout(); got != was || b.machine().Changes != 0 {
				t.Errorf("the GPU is now %s, was %s; %d changes of the hardware", got, was, b.machine().Changes)
			}
		})
	}
}

// TestUnfixedDriverIsAllowed: with allowUnfixedDriver the same driver is used.
func TestUnfixedDriverIsAllowed(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"allowed": func(c *Config) { c.AllowUnfixedDriver = true },
		"named":   func(c *Config) { c.FixedDrivers = []string{"570.86.01"} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, "1g.10gb@0"))
			b.state.Driver = "570.86.10"
			b.set(b.state)
			change(&b.config)
			b.order("1g.10gb@0", "2g.20gb@0")
			b.tick()
			if got := b.layout(); got != "2g.20gb@0" {
				t.Errorf("layout %s, %+v", got, b.answer())
			}
		})
	}
}

// TestUndoAfterFailure: after a failed step all earlier steps are undone.
func TestUndoAfterFailure(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	for name, fail := range map[string]fakenvml.Lines{
		"no free slices":   {"fail.nvmlDeviceCreateGpuInstanceWithPlacement": "23 1"},
		"half an instance": {"fail.nvmlGpuInstanceCreateComputeInstance": "999 1"},
		"came in use":      {"fail.nvmlGpuInstanceDestroy": "19 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, before))
			b.state.Lines = fail
			b.set(b.state)
			b.order(before, "2g.20gb@4")
			b.tick()
			if a := b.answer(); a.State != contract.AgentRestored || !a.Touched || a.Message == "" {
				t.Errorf("answer %+v", a)
			}
			if got := b.layout(); got != before {
				t.Errorf("layout %s, want %s", got, before)
			}
			if b.api.plugins[0] == "plugin-0" {
				t.Error("the device plugin offers instances that were made again")
			}
		})
	}
}

// TestFailedUndo: a GPU that falls off the bus during an operation is reported for each attempt,
// and the other GPU is still managed.
func TestFailedUndo(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"), h100(t, 1, "1g.10gb@0"))
	b.state.Lines = fakenvml.Lines{"fail.nvmlDeviceCreateGpuInstanceWithPlacement": "15 99"}
	b.set(b.state)
	r := b.order("1g.10gb@4", "2g.20gb@4")
	b.tick()
	if a := b.answer(); a.State != contract.AgentFailed || !strings.Contains(a.Message, "fallen off") {
		t.Errorf("answer %+v", a)
	}
	lost := b.machine()
	lost.GPUs[0].Lost, lost.Lines = true, nil
	b.set(lost)
	r.Undo = &contract.Undo{Since: b.now, Attempts: 1}
	b.api.set(contract.RecordAnnotation, r.String())
	b.tick()
	if a := b.answer(); a.State != contract.AgentFailed || a.Undo != 1 || !a.Touched {
		t.Errorf("answer to the first attempt %+v", a)
	}
	if rep := b.report(); rep.GPUs[0].Problem == "" || rep.GPUs[1].Problem != "" || rep.GPUs[1].Instances[0].Place != "1g@0:1" {
		t.Errorf("report %+v", rep)
	}
	back := b.machine()
	back.GPUs[0].Lost = false
	b.set(back)
	r.Undo.Attempts = 2
	b.api.set(contract.RecordAnnotation, r.String())
	b.tick()
	if a := b.answer(); a.State != contract.AgentRestored || b.layout() != "1g.10gb@4" {
		t.Errorf("after it came back: %+v, %s", a, b.layout())
	}
}

// TestPluginDoesNotRestart: a layout that is never advertised is undone.
func TestPluginDoesNotRestart(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.config.PluginTimeout = metav1.Duration{Duration: 100 * time.Millisecond}
	b.api.broken = true
	b.order("1g.10gb@4", "2g.20gb@4")
	b.tick()
	if a := b.answer(); a.State != contract.AgentFailed || b.layout() != "1g.10gb@4" || !strings.Contains(a.Message, "device plugin") {
		t.Errorf("%+v, %s", a, b.layout())
	}
}

// TestHangingDriver: a driver that does not answer ends the operation, and the report has the reason.
func TestHangingDriver(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.config.CallTimeout = metav1.Duration{Duration: 100 * time.Millisecond}
	b.state.Lines = fakenvml.Lines{"hang_ms": "3600000"}
	b.set(b.state)
	b.order("1g.10gb@4", "2g.20gb@4")
	b.tick()
	if a := b.answer(); a.State != contract.AgentRestored || a.Touched || !strings.Contains(a.Message, "does not answer") {
		t.Errorf("answer %+v", a)
	}
	if r := b.report(); !strings.Contains(r.Problem, "does not answer") {
		t.Errorf("report %+v", r)
	}
	b.answersAgain()
	if r := b.report(); r.Problem != "" {
		t.Errorf("the driver answers again: report %+v", r)
	}
}

// TestIgnoredOperations: the agent ignores mig-manager's operations, unreadable records, and
// operations that are not selected yet.
func TestIgnoredOperations(t *testing.T) {
	for _, text := range []string{
		`{"id":"a","config":"c","previous":"p","target":"2g@4:2","before":"1g@4:1","deadline":"2027-01-01T00:00:00Z"}`, `{"id":`,
		// Not selected: a pod may have been bound to the node meanwhile.
		`{"id":"a","actuator":"agent","target":"2g@4:2","before":"1g@4:1","deadline":"2027-01-01T00:00:00Z"}`,
	} {
		b := newBench(t, h100(t, 0, "1g.10gb@4"))
		b.api.set(contract.RecordAnnotation, text)
		b.tick()
		if n := b.machine().Changes; n != 0 || b.api.get(contract.AgentAnnotation) != "" {
			t.Errorf("%s: %d changes", text, n)
		}
	}
}

// TestOperationIsRevoked: the agent ends an operation at the next step once its record is undone or removed.
func TestOperationIsRevoked(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	for name, undone := range map[string]bool{"undone": true, "taken away": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, before))
			r := b.order(before, "2g.20gb@4")
			b.api.around(nil, func(n int) {
				switch {
				case n != 1:
				case undone:
					r.Undo = &contract.Undo{Since: b.now, Attempts: 1}
					b.api.set(contract.RecordAnnotation, r.String())
				default:
					b.api.set(contract.RecordAnnotation, "")
				}
			})
			b.tick()
			if n := b.machine().Changes; n != 2 {
				t.Errorf("%d changes of the hardware, want those of the one step that was noted", n)
			}
			if !undone {
				return
			}
			b.tick()
			if a := b.answer(); a.State != contract.AgentRestored || a.Undo != 1 || b.layout() != before {
				t.Errorf("%+v, %s", a, b.layout())
			}
		})
	}
}

// TestDeadlineExceeded: an operation past its deadline is undone.
func TestDeadlineExceeded(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.order("1g.10gb@4", "2g.20gb@4")
	b.api.around(nil, func(n int) {
		if n == 1 {
			b.api.mu.Lock()
			b.now = b.now.Add(time.Hour)
			b.api.mu.Unlock()
		}
	})
	b.tick()
	if a := b.answer(); a.State != contract.AgentRestored || b.layout() != "1g.10gb@4" || !strings.Contains(a.Message, "deadline") {
		t.Errorf("%+v, %s", a, b.layout())
	}
}

// TestWarnings: an error is logged once, and a conflict not at all.
func TestWarnings(t *testing.T) {
	var log strings.Builder
	a := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	broken := errors.New("NVML does not answer")
	conflict := fmt.Errorf("annotating node n: %w", apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", nil))
	for _, err := range []error{conflict, broken, broken, nil, broken} {
		a.warn(err)
	}
	if got := log.String(); strings.Count(got, "NVML does not answer") != 1 || strings.Count(got, "\n") != 1 {
		t.Errorf("logged\n%s", got)
	}
}

// TestSeveralComputeInstances: an instance is allocated if any part of it is.
func TestSeveralComputeInstances(t *testing.T) {
	i := hardware.Instance{UUID: "MIG-a", More: []string{"MIG-b", "MIG-c"}}
	if got := allocatedTo(i, map[string]string{"MIG-c": "team/p"}); got != "team/p" {
		t.Errorf("allocated to %q", got)
	}
}

// TestLostAnnotation: the agent's annotation is missing or unreadable during an operation or its undo. The GPU's state
// then decides what must be undone: a partly repartitioned GPU does not count as unchanged.
func TestLostAnnotation(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	for name, test := range map[string]struct {
		device, diary string
		change        func(*bench)
		state         contract.AgentState
		want, why     string
	}{
		"half done, missing":      {"1g.10gb@4", "", nil, contract.AgentRestored, before, ""},
		"half done, broken":       {"1g.10gb@4", `{"id":`, nil, contract.AgentRestored, before, ""},
		"done, a megabyte":        {"2g.20gb@4", strings.Repeat("x", 1<<20), nil, contract.AgentRestored, before, ""},
		"as it was":               {before, "", nil, contract.AgentRestored, before, ""},
		"half done, on the way":   {"1g.10gb@4", "{", func(b *bench) { b.order(before, "2g.20gb@4") }, contract.AgentRestored, before, ""},
		"half done, switched off": {"1g.10gb@4", "", func(b *bench) { b.config.Freeze = true }, contract.AgentFailed, "1g.10gb@4", "freeze: true"},
		"the GPU is away": {"1g.10gb@4", "", func(b *bench) { b.state.GPUs[0].Lost = true; b.set(b.state) }, contract.AgentFailed, "1g.10gb@4",
			"fallen off"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, test.device))
			b.order(before, "2g.20gb@4", func(r *contract.Record) { r.Undo = &contract.Undo{Since: b.now, Attempts: 1} })
			b.api.set(contract.AgentAnnotation, test.diary)
			if test.change != nil {
				test.change(b)
			}
			b.tick()
			a := b.answer()
			if a.State != test.state || !strings.Contains(a.Message, test.why) {
				t.Errorf("answer %+v, want %s because of %q", a, test.state, test.why)
			}
			if got, changes := b.layout(), b.machine().Changes; got != test.want || test.device == before && (changes != 0 || a.Undo != 1) {
				t.Errorf("the GPU is %s after %d changes, want %s", got, changes, test.want)
			}
		})
	}
}

// TestExporterIsQuiescedAgain: during a long operation the exporter does not reacquire the GPU. The agent after
// a killed one has it reacquire the GPU early.
func TestExporterIsQuiescedAgain(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	j := &job{a: b.agent(), record: contract.Record{ID: "op-1", UUID: fakenvml.GPUUUID(0)}}
	for range 2 {
		require.NoError(t, j.quiesce(t.Context()))
	}
	if b.exporter.asked != 1 {
		t.Errorf("asked %d times, want once", b.exporter.asked)
	}
	j.quiescedAt = j.quiescedAt.Add(-quiesceFor / 2)
	if err := j.quiesce(t.Context()); err != nil || b.exporter.asked != 2 {
		t.Errorf("after half of the time: asked %d times, %v", b.exporter.asked, err)
	}
	killed := &job{a: b.agent(), record: j.record, answer: contract.Answer{Touched: true}}
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
		k, err := dialKubelet(socket, "team/p")
		require.NoError(t, err)
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
		require.NoError(t, a.Tick(t.Context()))
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
		{contract.ReportEvery - 10*time.Second, nil, 0},
		{10 * time.Second, nil, 1},
		{time.Second, func() { b.api.set(OffAnnotation, "x") }, 0}, // its period is not over
		{10 * time.Second, nil, 1},
		// The node's clock is set back: the report on the node is in the future.
		{-time.Hour, nil, 1},
		{10 * time.Second, func() { b.api.set(contract.LayoutAnnotation, "{") }, 1},
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
	if r := b.report(); !strings.Contains(r.Problem, OffAnnotation) {
		t.Errorf("report %+v", r)
	}
}

// TestTwoAgents: the second waits until the first has ended, however it ended.
func TestTwoAgents(t *testing.T) { synctest.Test(t, testTwoAgents) }

func testTwoAgents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	release, err := lock(t.Context(), path, func() { t.Error("without a lock file it does not wait") })
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lock(ctx, path, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("the second got the lock: %v", err)
	}
	again, err := lock(t.Context(), path, release)
	require.NoError(t, err)
	again()
	if _, err := lock(t.Context(), filepath.Join(path, "no"), nil); err == nil || !strings.Contains(err.Error(), "lockFile") {
		t.Errorf("a path that cannot be: %v", err)
	}
	if release, err := lock(t.Context(), "", nil); err != nil {
		t.Error(err)
	} else {
		release()
	}
}
