package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// World is a cluster. The zero World is empty, at the zero time.
type World struct {
	// State is the snapshot of the world. It may be edited between calls; nodes
	// and pods are found by name.
	State plan.Snapshot
	// Fail names the GPUs ("n1/0") whose next repartition fails.
	Fail []string
	// Score, where set, rates a node for a pod that fits it, with the requests of
	// the pods that run there: a pod is bound to the highest, the first by name of
	// equals. Without it, to the first by name.
	Score func(p *plan.Pod, n *plan.Node, cpuMilli, memoryMi int64) int64

	// Lost, where set, says of a requested node whether it never registers. Its pool
	// counts it until the request is withdrawn, or its maker gives up.
	Lost func() bool
	// Interrupted, where set, is how long a new node runs until its provider
	// announces that it takes the node back.
	Interrupted func() time.Duration

	lost    map[string]int  // nodes that never register and still count, by pool
	due     []event         // sorted by time
	evicted map[string]bool // pods that have not run since: their budgets allow one less
}

// Event is something that happened, as text.
type Event struct {
	At    time.Time
	Text  string
	Bound string    // "namespace/name" of the pod that was bound, empty for another event
	Since time.Time // when that pod became pending
}

// event is something that will happen.
type event struct {
	at time.Time
	do func(w *World) string
}

// Snapshot returns a copy of the state that shares nothing with the world.
func (w *World) Snapshot() plan.Snapshot {
	s := w.State
	s.Pools = append([]plan.Pool(nil), s.Pools...)
	s.Pods = append([]plan.Pod(nil), s.Pods...)
	for i := range s.Pods {
		s.Pods[i].Budgets = slices.Clone(s.Pods[i].Budgets)
	}
	s.Tenants = append([]plan.Tenant(nil), s.Tenants...)
	s.Forecasts = append([]plan.Forecast(nil), s.Forecasts...)
	s.Nodes = append([]plan.Node(nil), s.Nodes...)
	for i := range s.Nodes {
		s.Nodes[i] = cloneNode(s.Nodes[i])
	}
	return s
}

func cloneNode(n plan.Node) plan.Node {
	n.GPUs = slices.Clone(n.GPUs)
	for c := range n.GPUs {
		n.GPUs[c].Instances = slices.Clone(n.GPUs[c].Instances)
		n.GPUs[c].AllocatedTo = slices.Clone(n.GPUs[c].AllocatedTo)
	}
	if n.Operation != nil {
		o := *n.Operation
		n.Operation = &o
	}
	if n.Drain != nil {
		d := *n.Drain
		n.Drain = &d
	}
	return n
}

// Advance lets time pass and returns what happened: events that fall due, pods
// that end, pods that are scheduled.
func (w *World) Advance(d time.Duration) []Event {
	end := w.State.Now.Add(max(d, 0))
	events := w.Schedule()
	for {
		at, ok := w.nextTime()
		if !ok || at.After(end) {
			break
		}
		if at.After(w.State.Now) {
			w.State.Now = at
		}
		if left := w.depart(); len(left) > 0 {
			events = append(events, left...)
		} else {
			e := w.due[0]
			w.due = w.due[1:]
			if text := e.do(w); text != "" {
				events = append(events, Event{At: w.State.Now, Text: text})
			}
		}
		events = append(events, w.Schedule()...)
	}
	w.State.Now = end
	return events
}

// nextTime is when something next falls due or a pod ends; false for never.
func (w *World) nextTime() (time.Time, bool) {
	var at time.Time
	ok := false
	if len(w.due) > 0 {
		at, ok = w.due[0].at, true
	}
	for i := range w.State.Pods {
		p := &w.State.Pods[i]
		if p.Leaving && !p.LeavesAt.IsZero() && (!ok || p.LeavesAt.Before(at)) {
			at, ok = p.LeavesAt, true
		}
	}
	return at, ok
}

// after schedules do for d from now.
func (w *World) after(d time.Duration, do func(w *World) string) {
	w.due = append(w.due, event{w.State.Now.Add(max(d, 0)), do})
	slices.SortStableFunc(w.due, func(a, b event) int { return a.at.Compare(b.at) })
}

func (w *World) node(name string) *plan.Node {
	for i := range w.State.Nodes {
		if w.State.Nodes[i].Name == name {
			return &w.State.Nodes[i]
		}
	}
	return nil
}

func (w *World) pool(name string) *plan.Pool {
	for i := range w.State.Pools {
		if w.State.Pools[i].Name == name {
			return &w.State.Pools[i]
		}
	}
	return nil
}

// newName is the first free "pool-N".
func (w *World) newName(pool string) string {
	for i := 1; ; i++ {
		name := fmt.Sprintf("%s-%d", pool, i)
		if w.node(name) == nil {
			return name
		}
	}
}

// pod finds a pod by "namespace/name", -1 for none.
func (w *World) pod(key string) int {
	namespace, name, _ := strings.Cut(key, "/")
	return slices.IndexFunc(w.State.Pods, func(p plan.Pod) bool { return p.Name == name && p.Namespace == namespace })
}

// RemovePod ends a pod and releases its devices; false when there is none.
func (w *World) RemovePod(key string) bool {
	i := w.pod(key)
	if i < 0 {
		return false
	}
	if n := w.node(w.State.Pods[i].Node); n != nil {
		w.release(n, key)
	}
	w.State.Pods = slices.Delete(w.State.Pods, i, i+1)
	delete(w.evicted, key)
	return true
}

func (w *World) release(n *plan.Node, key string) {
	for c := range n.GPUs {
		device := &n.GPUs[c]
		had := len(device.AllocatedTo)
		device.AllocatedTo = slices.DeleteFunc(device.AllocatedTo, func(h string) bool { return h == key })
		if had > 0 && len(device.AllocatedTo) == 0 {
			device.IdleSince, device.UnusedSince = w.State.Now, time.Time{}
		}
		for i := range device.Instances {
			if in := &device.Instances[i]; in.AllocatedTo == key {
				in.AllocatedTo, in.IdleSince, in.UnusedSince = "", w.State.Now, time.Time{}
			}
		}
	}
}

// Fingerprint is the state without its times and the names of nodes: two equal
// ones with an action between them mean that a planner goes in circles.
func (w *World) Fingerprint() string {
	var lines []string
	for _, p := range w.State.Pools {
		lines = append(lines, fmt.Sprintf("pool %s %d", p.Name, p.Target))
	}
	for _, n := range w.State.Nodes {
		var b strings.Builder
		fmt.Fprintf(&b, "node of %s %v", n.Pool, n.CordonedBy != "")
		if n.Drain != nil {
			fmt.Fprintf(&b, " draining %s", n.Drain.Reason)
		}
		for _, c := range n.GPUs {
			fmt.Fprintf(&b, " %v", c.AllocatedTo)
			for _, i := range c.Instances {
				fmt.Fprintf(&b, " %s=%s", i.Placement, i.AllocatedTo)
			}
			b.WriteByte(';')
		}
		lines = append(lines, b.String())
	}
	for i := range w.State.Pods {
		p := &w.State.Pods[i]
		lines = append(lines, fmt.Sprintf("pod %s %v %v %v %v", p.Key(), p.Node != "", p.Leaving, p.Unmade, p.Budgets))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
