package pods

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// procList is a driver's list of processes.
type procList struct {
	gpus []GPU
	err  error
}

func (l *procList) Processes() ([]GPU, error) { return l.gpus, l.err }

var noon = time.Unix(1_800_000_000, 0)

const (
	uidB = "1c4d1b9e-8a55-4a3e-9f2b-1d2c3b4a5f60"
	idB  = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	idC  = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
)

// twoPods share a GPU: a has one container, b has two of which only main usages
// the GPU.
func twoPods() *world {
	c := &cluster{opts: Options{Log: slog.New(slog.DiscardHandler)}}
	w := &world{}
	c.learnPods(w, []Pod{
		{Namespace: "ns", Name: "a", UID: uidA, names: map[string]string{idA: "main"}},
		{Namespace: "ns", Name: "b", UID: uidB, names: map[string]string{idB: "main", idC: "side"}},
	})
	return w
}

func cgroupOf(uid, id string) string { return "0::/kubepods/burstable/pod" + uid + "/" + id + "\n" }

// attributed is the measured use of the allocations of one GPU.
func attributed(t *testing.T, u *users, allocations ...collect.Allocation) []collect.Allocated {
	t.Helper()
	entities := []collect.Entity{{Kind: collect.GPU, UUID: "GPU-a"}}
	a := collect.Attribution{Allocations: make([][]collect.Allocated, 1)}
	for _, h := range allocations {
		a.Allocations[0] = append(a.Allocations[0], collect.Allocated{Allocation: h})
	}
	u.fill(entities, &a, noon.Add(time.Second), time.Second)
	return a.Allocations[0]
}

func TestUseOfEachContainer(t *testing.T) {
	proc := fakeProc(t, true, map[int]string{
		1: "0::/init.scope\n", 10: cgroupOf(uidA, idA), 11: cgroupOf(uidA, idA), 20: cgroupOf(uidB, idB),
		30: cgroupOf("2c4d1b9e-8a55-4a3e-9f2b-1d2c3b4a5f60", idC), // of an unknown pod
	})
	device := GPU{UUID: "GPU-a", Instance: -1, BusyKnown: true, MemoryKnown: true, Taken: noon, Processes: []Process{
		{PID: 1, Busy: 0.5, Memory: 5}, {PID: 10, Busy: 0.25, Memory: 100}, {PID: 11, Busy: 0.25, Memory: 1},
		{PID: 20, Busy: 0.125, Memory: 10}, {PID: 30, Busy: 0.1, Memory: 3}, {PID: 99, Busy: 0.1, Memory: 3},
	}}
	list := &procList{gpus: []GPU{device}}
	u := &users{source: list, proc: proc, world: twoPods, log: slog.New(slog.DiscardHandler)}
	a, b := collect.Allocation{Namespace: "ns", Pod: "a", Container: "main"}, collect.Allocation{Namespace: "ns", Pod: "b", Container: "main"}
	stranger := collect.Allocation{Namespace: "ns", Pod: "new", Container: "main"}
	at := func(n float64) collect.Value { return collect.Value{Number: n, Time: noon} }
	check := func(what string, got collect.Allocated, busy, memory collect.Value) {
		t.Helper()
		if got.Busy != busy || got.Memory != memory {
			t.Errorf("%s: %+v, want %+v and %+v", what, got, busy, memory)
		}
	}
	u.pass()
	usages := attributed(t, u, a, b, stranger)
	check("a", usages[0], at(0.5), at(101))
	check("b", usages[1], at(0.125), at(10))
	check("an unknown pod", usages[2], collect.Value{}, collect.Value{})

	// A GPU with a single allocation has its own values, not the sum of its processes.
	check("alone", attributed(t, u, a)[0], collect.Value{}, collect.Value{})

	// One process of unknown memory makes all memory unknown.
	list.gpus[0].Processes[3].Memory = -1
	u.pass()
	check("memory unknown", attributed(t, u, a, b)[1], at(0.125), collect.Value{})

	// The driver measures nothing: an empty list is a zero, a missing list is not.
	list.gpus = []GPU{{UUID: "GPU-a", Instance: -1, MemoryKnown: true, Taken: noon}}
	u.pass()
	check("no utilization", attributed(t, u, a, b)[0], collect.Value{}, at(0))

	// Old, missing, or refused: the use is unknown.
	list.gpus[0].Taken = noon.Add(-2 * time.Second)
	u.pass()
	check("old", attributed(t, u, a, b)[0], collect.Value{}, collect.Value{})
	list.err = errors.New("driver gone")
	u.pass()
	check("failed", attributed(t, u, a, b)[0], collect.Value{}, collect.Value{})
	list.err, u.proc = nil, fakeProc(t, false, nil)
	list.gpus[0].Taken = noon
	u.pass()
	check("without hostPID", attributed(t, u, a, b)[0], collect.Value{}, collect.Value{})
	if u.failed == nil || !strings.Contains(u.failed.Error(), "hostPID") {
		t.Errorf("nothing says why: %v", u.failed)
	}
}

// A pod that was created again under its name is known by its old UID until the API server is read again. Until then
// its use is unknown, not zero, while there is a process of an unknown pod.
func TestPodMadeAgain(t *testing.T) {
	list := &procList{gpus: []GPU{{UUID: "GPU-a", Instance: -1, BusyKnown: true, MemoryKnown: true, Taken: noon, Processes: []Process{
		{PID: 10, Busy: 0.5, Memory: 5}, {PID: 20, Busy: 0.25, Memory: 3},
	}}}}
	proc := fakeProc(t, true, map[int]string{10: cgroupOf("3d4d1b9e-8a55-4a3e-9f2b-1d2c3b4a5f60", idC), 20: cgroupOf(uidB, idB)})
	u := &users{source: list, proc: proc, world: twoPods, log: slog.New(slog.DiscardHandler)}
	u.pass()
	a, b := collect.Allocation{Namespace: "ns", Pod: "a", Container: "main"}, collect.Allocation{Namespace: "ns", Pod: "b", Container: "main"}
	if got := attributed(t, u, a, b); got[0].Busy.Known() || got[0].Memory.Known() || got[1].Busy.Number != 0.25 {
		t.Errorf("%+v", got)
	}
}

// A process in a container with an unknown id is attributed to the pod's only container, and to none if it has several.
func TestContainerNotKnown(t *testing.T) {
	proc := fakeProc(t, true, map[int]string{10: cgroupOf(uidB, strings.Repeat("d", 64)), 20: cgroupOf(uidA, idA)})
	u := &users{proc: proc, world: twoPods, log: slog.New(slog.DiscardHandler), source: &procList{gpus: []GPU{{
		UUID: "GPU-a", Instance: -1, BusyKnown: true, Taken: noon, Processes: []Process{{PID: 10, Busy: 0.5}, {PID: 20, Busy: 0.25}},
	}}}}
	u.pass()
	a := collect.Allocation{Namespace: "ns", Pod: "a", Container: "main"}
	b, side := collect.Allocation{Namespace: "ns", Pod: "b", Container: "main"}, collect.Allocation{Namespace: "ns", Pod: "b", Container: "side"}
	if got := attributed(t, u, a, b); got[1].Busy.Number != 0.5 || got[0].Busy.Number != 0.25 {
		t.Errorf("the pod's only container: %+v", got)
	}
	if got := attributed(t, u, a, b, side); got[1].Busy.Known() || got[2].Busy.Known() || !got[0].Busy.Known() {
		t.Errorf("either container: %+v", got)
	}
}
