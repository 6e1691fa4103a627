package pods

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// Processes tells what runs on the cards. The driver's library does.
type Processes interface {
	// Processes may take long or hang; it is called from one goroutine.
	Processes() ([]Card, error)
}

// Card is a card or an instance with the processes on it.
type Card struct {
	UUID     string // of the card
	Instance int    // GPU instance id; -1 for the whole card
	// BusyKnown says that the driver measured what processes compute: one that is
	// not in the list then computed nothing. MemoryKnown likewise.
	BusyKnown, MemoryKnown bool
	Taken                  time.Time
	Processes              []Process
}

// Process is one process on one card or instance.
type Process struct {
	PID    int
	Busy   float64 // 0 … 1 of the card
	Memory int64   // bytes; -1 where the driver does not tell
}

// useAge is for how many intervals a measurement is used.
const useAge = 2.5

// place is a card or an instance.
type place struct {
	uuid     string
	instance int
}

// use is what one container's processes do.
type use struct{ busy, memory float64 }

// usage is one pass over the processes; immutable.
type usage struct {
	cards map[place]*cardUse
}

type cardUse struct {
	taken                  time.Time
	busyKnown, memoryKnown bool
	byContainer            map[owner]use
	// doubtful are pods of which a process' container could not be told.
	doubtful map[podName]use
}

// owner is a container as process accounting knows it.
type owner struct {
	pod       podName
	container string
}

// users samples processes and says which container each belongs to.
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
		u.log.Warn("containers that share a GPU have no values of their own", "error", err)
	case err == nil && u.failed != nil:
		u.log.Info("containers that share a GPU have values of their own again")
	}
	u.failed = err
	u.now.Store(next)
}

func (u *users) sample() (*usage, error) {
	if err := seesHost(u.proc); err != nil {
		return nil, err
	}
	cards, err := u.source.Processes()
	if err != nil {
		return nil, fmt.Errorf("listing GPU processes: %w", err)
	}
	w := u.world()
	if len(w.pods) == 0 {
		return nil, fmt.Errorf("the pods of this node are not known, so no process can be told to be a pod's")
	}
	next := &usage{cards: map[place]*cardUse{}}
	for i := range cards {
		card := &cards[i]
		next.cards[place{card.UUID, card.Instance}] = u.add(card, w)
	}
	return next, nil
}

// add sums a card's processes by container.
func (u *users) add(card *Card, w *world) *cardUse {
	out := &cardUse{
		taken: card.Taken, busyKnown: card.BusyKnown, memoryKnown: card.MemoryKnown,
		byContainer: map[owner]use{}, doubtful: map[podName]use{},
	}
	for _, p := range card.Processes {
		where, ok := readCgroup(u.proc, p.PID)
		pod := w.byUID[where.podUID]
		if !ok || pod == nil {
			continue // of the node itself, or of a pod just made: nobody's
		}
		if p.Memory < 0 {
			out.memoryKnown = false
		}
		name := podName{pod.Namespace, pod.Name}
		add := func(sum use) use {
			return use{busy: sum.busy + p.Busy, memory: sum.memory + float64(max(0, p.Memory))}
		}
		if container := pod.containerByID(where.container); container != "" {
			o := owner{name, container}
			out.byContainer[o] = add(out.byContainer[o])
		} else {
			out.doubtful[name] = add(out.doubtful[name])
		}
	}
	return out
}

func (p *Pod) containerByID(id string) string {
	for _, c := range p.Containers {
		if id != "" && c.ID == id {
			return c.Name
		}
	}
	return ""
}

// fill sets what each holder of a shared entity does, as far as it is known.
func (u *users) fill(entities []collect.Entity, a *collect.Attribution, now time.Time, interval time.Duration) {
	seen := u.now.Load()
	if seen == nil {
		return
	}
	w := u.world()
	for i := range a.Holders {
		if len(a.Holders[i]) < 2 {
			continue
		}
		e := &entities[i]
		key := place{e.UUID, -1}
		if e.Kind == collect.Instance {
			key.instance = e.InstanceID
		}
		card := seen.cards[key]
		if card == nil || now.Sub(card.taken) > time.Duration(useAge*float64(interval)) {
			continue
		}
		for j := range a.Holders[i] {
			card.fill(&a.Holds[i][j], a.Holders[i][j], a.Holders[i], w)
		}
	}
}

// fill sets what one holder does. A pod that the API server has not told of yet
// may have processes that were taken for nobody's: of it nothing is known.
func (c *cardUse) fill(hold *collect.Hold, h collect.Holder, all []collect.Holder, w *world) {
	pod := podName{h.Namespace, h.Pod}
	if w.pods[pod] == nil {
		return
	}
	sum := c.byContainer[owner{pod, h.Container}]
	if doubt, ok := c.doubtful[pod]; ok {
		for _, other := range all {
			if other != h && other.Namespace == h.Namespace && other.Pod == h.Pod {
				return // it could be the other container's
			}
		}
		sum.busy += doubt.busy
		sum.memory += doubt.memory
	}
	if c.busyKnown {
		hold.Busy = collect.Measured{Number: sum.busy, Time: c.taken}
	}
	if c.memoryKnown {
		hold.Memory = collect.Measured{Number: sum.memory, Time: c.taken}
	}
}
