package pods

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Processes lists the processes on the GPUs, as the driver's library does.
type Processes interface {
	// Processes may take long or hang; it is called from one goroutine, which keeps the answer.
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
	strangers              bool // some processes are of pods that the API server has not returned yet
}

// Process is one process on one GPU or instance.
type Process struct {
	PID    int
	Busy   float64 // 0 … 1 of the GPU
	Memory int64   // bytes; -1 where unknown
	// of is the process' container. Container is "" if only the pod is known. All of it is zero
	// for a process of the node, or of a pod that the API server has not returned yet.
	of collect.Allocation
}

// users samples processes and maps them to containers.
type users struct {
	source Processes
	proc   string
	world  func() *world
	log    *slog.Logger
	now    atomic.Pointer[[]GPU]
	failed error // as last logged
}

// pass samples once. A failure is logged when it begins and when it ends.
func (u *users) pass() {
	gpus, err := u.sample()
	switch {
	case err != nil && u.failed == nil:
		u.log.Warn("no values for containers that share a GPU", "error", err)
	case err == nil && u.failed != nil:
		u.log.Info("values for containers that share a GPU again")
	}
	u.failed = err
	u.now.Store(&gpus)
}

func (u *users) sample() ([]GPU, error) {
	if err := seesHost(u.proc); err != nil {
		return nil, err
	}
	gpus, err := u.source.Processes()
	if err != nil {
		return nil, fmt.Errorf("listing GPU processes: %w", err)
	}
	w := u.world()
	if len(w.pods) == 0 {
		return nil, errors.New("the pods of this node are unknown, so no process can be attributed")
	}
	for i := range gpus {
		for k := range gpus[i].Processes {
			p := &gpus[i].Processes[k]
			where, inPod := readCgroup(u.proc, p.PID)
			pod := w.byUID[where.podUID]
			switch {
			case !inPod:
			case pod == nil:
				gpus[i].strangers = true
			default:
				p.of = collect.Allocation{Namespace: pod.Namespace, Pod: pod.Name, Container: pod.names[where.container]}
				gpus[i].MemoryKnown = gpus[i].MemoryKnown && p.Memory >= 0
			}
		}
	}
	return gpus, nil
}

// fill sets the measured use of each allocation of a shared entity, as far as
// it is known.
func (u *users) fill(entities []collect.Entity, a *collect.Attribution, now time.Time, interval time.Duration) {
	gpus, w := *u.now.Load(), u.world()
	for i, list := range a.Allocations {
		if len(list) < 2 {
			continue
		}
		uuid, instance := entities[i].UUID, -1
		if entities[i].Kind == collect.Instance {
			instance = entities[i].InstanceID
		}
		at := slices.IndexFunc(gpus, func(g GPU) bool { return g.UUID == uuid && g.Instance == instance })
		if at < 0 || now.Sub(gpus[at].Taken) > collect.StaleAfter(interval) {
			continue
		}
		for k := range list {
			// The processes of a pod that the API server has not returned yet are not attributed, so
			// the use of such a pod is unknown.
			if w.pods[collect.PodName{Namespace: list[k].Namespace, Name: list[k].Pod}] != nil {
				gpus[at].fill(&list[k], list)
			}
		}
	}
}

// fill sets the measured use of one allocation on the GPU: the sum of its processes. A process of an
// unknown container counts if the pod has only one on this GPU. If it has no process, and processes
// of unknown pods are on the GPU, the use is unknown: its pod may have been recreated under the same
// name.
func (g *GPU) fill(h *collect.Allocated, all []collect.Allocated) {
	alone := !slices.ContainsFunc(all, func(o collect.Allocated) bool {
		return o.Allocation != h.Allocation && o.Namespace == h.Namespace && o.Pod == h.Pod
	})
	busy, memory, none := 0.0, 0.0, true
	for _, p := range g.Processes {
		if p.of.Namespace != h.Namespace || p.of.Pod != h.Pod || p.of.Container != "" && p.of.Container != h.Container {
			continue
		}
		if p.of.Container == "" && !alone {
			return // it could be the other container's
		}
		busy, memory, none = busy+p.Busy, memory+float64(max(0, p.Memory)), false
	}
	if none && g.strangers {
		return
	}
	if g.BusyKnown {
		h.Busy = collect.Value{Number: busy, Time: g.Taken}
	}
	if g.MemoryKnown {
		h.Memory = collect.Value{Number: memory, Time: g.Taken}
	}
}
