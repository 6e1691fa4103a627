package pods

import (
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Processes lists the processes on the GPUs, as the driver's library does.
type Processes interface {
	// Processes may take long or hang; it is called from one goroutine.
	Processes() ([]GPU, error)
}

// GPU is a GPU or an instance with the processes on it.
type GPU struct {
	UUID     string // of the GPU
	Instance int    // GPU instance id; -1 for the whole GPU
	// BusyKnown means that the driver measured what processes compute: one that
	// is not in the list then computed nothing. MemoryKnown likewise.
	BusyKnown, MemoryKnown bool
	Taken                  time.Time
	Processes              []Process
}

// Process is one process on one GPU or instance.
type Process struct {
	PID    int
	Busy   float64 // 0 … 1 of the GPU
	Memory int64   // bytes; -1 where unknown
}

// place is a GPU or an instance.
type place struct {
	uuid     string
	instance int
}

// use is what one container's processes do.
type use struct{ busy, memory float64 }

// usage is one pass over the processes; immutable.
type usage map[place]*gpuUse

type gpuUse struct {
	taken                  time.Time
	busyKnown, memoryKnown bool
	// by container; without its name what is of a pod's container that is unknown.
	by map[collect.Allocation]use
}

// users samples processes and maps them to containers.
type users struct {
	source Processes
	proc   string
	world  func() *world
	log    *slog.Logger
	now    atomic.Pointer[usage]
	failed error // as last logged
}

// pass samples once. A failure is logged when it begins and when it ends.
func (u *users) pass() {
	next, err := u.sample()
	switch {
	case err != nil && u.failed == nil:
		u.log.Warn("no values for containers that share a GPU", "error", err)
	case err == nil && u.failed != nil:
		u.log.Info("values for containers that share a GPU again")
	}
	u.failed = err
	u.now.Store(&next)
}

func (u *users) sample() (usage, error) {
	if err := seesHost(u.proc); err != nil {
		return nil, err
	}
	gpus, err := u.source.Processes()
	if err != nil {
		return nil, fmt.Errorf("listing GPU processes: %w", err)
	}
	w := u.world()
	if len(w.pods) == 0 {
		return nil, fmt.Errorf("the pods of this node are unknown, so no process can be attributed")
	}
	next := usage{}
	for i := range gpus {
		device := &gpus[i]
		next[place{device.UUID, device.Instance}] = u.add(device, w)
	}
	return next, nil
}

// add sums a GPU's processes by container.
func (u *users) add(device *GPU, w *world) *gpuUse {
	out := &gpuUse{taken: device.Taken, busyKnown: device.BusyKnown, memoryKnown: device.MemoryKnown, by: map[collect.Allocation]use{}}
	for _, p := range device.Processes {
		where, ok := readCgroup(u.proc, p.PID)
		pod := w.byUID[where.podUID]
		if !ok || pod == nil {
			continue // of the node itself, or of a pod just made: not attributed
		}
		if p.Memory < 0 {
			out.memoryKnown = false
		}
		of := collect.Allocation{Namespace: pod.Namespace, Pod: pod.Name, Container: pod.names[where.container]}
		out.by[of] = use{out.by[of].busy + p.Busy, out.by[of].memory + float64(max(0, p.Memory))}
	}
	return out
}

// fill sets the measured use of each allocation of a shared entity, as far as
// it is known.
func (u *users) fill(entities []collect.Entity, a *collect.Attribution, now time.Time, interval time.Duration) {
	seen, w := *u.now.Load(), u.world()
	for i, list := range a.Allocations {
		if len(list) < 2 {
			continue
		}
		e := &entities[i]
		key := place{e.UUID, -1}
		if e.Kind == collect.Instance {
			key.instance = e.InstanceID
		}
		device := seen[key]
		if device == nil || now.Sub(device.taken) > collect.StaleAfter(interval) {
			continue
		}
		for j := range list {
			device.fill(&list[j], list, w)
		}
	}
}

// fill sets the measured use of one allocation. The processes of a pod that the
// API server has not returned yet are not attributed, so the use of such a pod
// is unknown.
func (c *gpuUse) fill(h *collect.Allocated, all []collect.Allocated, w *world) {
	if w.pods[collect.PodName{Namespace: h.Namespace, Name: h.Pod}] == nil {
		return
	}
	sum := c.by[h.Allocation]
	if doubt, ok := c.by[collect.Allocation{Namespace: h.Namespace, Pod: h.Pod}]; ok {
		if slices.ContainsFunc(all, func(o collect.Allocated) bool {
			return o.Allocation != h.Allocation && o.Namespace == h.Namespace && o.Pod == h.Pod
		}) {
			return // it could be the other container's
		}
		sum = use{sum.busy + doubt.busy, sum.memory + doubt.memory}
	}
	if c.busyKnown {
		h.Busy = collect.Measured{Number: sum.busy, Time: c.taken}
	}
	if c.memoryKnown {
		h.Memory = collect.Measured{Number: sum.memory, Time: c.taken}
	}
}
