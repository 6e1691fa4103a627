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
	// Score, where set, rates a node that fits a pod; cpuMilli and memoryMi are what
	// the pods that run there request. A pod is bound to the node of the highest
	// score, and to the first by name where scores are equal or Score is not set.
	Score func(p *plan.Pod, n *plan.Node, cpuMilli, memoryMi int64) int64
	// Bound, where set, is called with each pod that is bound, and Evicted with each
	// that is evicted or loses its node, both at State.Now.
	Bound, Evicted func(p *plan.Pod)

	// Registers is the time from a node's registration until it is ready. Pods
	// can be nominated for it in that time.
	Registers time.Duration
	// Lost, where set, reports whether the next requested node never registers. Its
	// pool's target includes it until the request is withdrawn, or given up after
	// Registration.
	Lost func() bool
	// Interrupted, where set, returns how long a new node is ready until its provider
	// announces the interruption.
	Interrupted func() time.Duration

	lost      map[string]int    // by pool, the nodes in its target that never register
	due       []event           // sorted by time
	nominated map[string]string // by key of a pending pod, the node that it is nominated for
	evicted   map[string]bool   // evicted pods that have not run since: their budgets allow one less
}

// Event is something that happened, as text.
type Event struct {
	At   time.Time
	Text string
}

// event is something that will happen. do returns it as text, empty where it does not happen.
type event struct {
	at time.Time
	do func() string
}

const (
	// Registration is the time after which the request for a node that has not
	// registered is given up: cluster-autoscaler's --max-node-provision-time and
	// Karpenter's registration timeout are both 15 minutes from the request.
	Registration = 15 * time.Minute
	// notice is the time from the announcement of an interruption to the node's end,
	// as on AWS.
	notice = 2 * time.Minute
)

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
		n.Operation = new(*n.Operation)
	}
	if n.Drain != nil {
		n.Drain = new(*n.Drain)
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
			w.State.Now = end
			return events
		}
		if at.After(w.State.Now) {
			w.State.Now = at
		}
		left := w.depart()
		if len(left) == 0 {
			next := w.due[0]
			w.due = w.due[1:]
			if text := next.do(); text != "" {
				left = []Event{{w.State.Now, text}}
			}
		}
		events = append(append(events, left...), w.Schedule()...)
	}
}

// nextTime is when something next falls due or a pod ends; false for never.
func (w *World) nextTime() (at time.Time, ok bool) {
	if len(w.due) > 0 {
		at, ok = w.due[0].at, true
	}
	for i := range w.State.Pods {
		if p := &w.State.Pods[i]; p.Leaving && !p.LeavesAt.IsZero() && (!ok || p.LeavesAt.Before(at)) {
			at, ok = p.LeavesAt, true
		}
	}
	return at, ok
}

// after schedules do for d from now.
func (w *World) after(d time.Duration, do func() string) {
	w.due = append(w.due, event{w.State.Now.Add(max(d, 0)), do})
	slices.SortStableFunc(w.due, func(a, b event) int { return a.at.Compare(b.at) })
}

// depart removes the pods whose LeavesAt has come.
func (w *World) depart() []Event {
	var events []Event
	var keys []string
	for _, p := range w.State.Pods {
		if p.Leaving && !p.LeavesAt.IsZero() && !p.LeavesAt.After(w.State.Now) {
			keys = append(keys, p.Key())
			events = append(events, Event{w.State.Now, fmt.Sprintf("%s has left %s", p.Key(), p.Node)})
		}
	}
	for _, key := range keys {
		w.RemovePod(key)
	}
	slices.SortFunc(events, func(a, b Event) int { return strings.Compare(a.Text, b.Text) })
	return events
}

// lose keeps a node that never registers in its pool's target until it is given up.
func (w *World) lose(p *plan.Pool) {
	name := p.Name
	if w.lost == nil {
		w.lost = map[string]int{}
	}
	w.lost[name]++
	w.after(Registration-w.unregistered(p), func() string {
		p := w.pool(name)
		if p == nil || w.lost[name] == 0 {
			return "" // it was withdrawn
		}
		w.lost[name]--
		p.Target--
		return "a node of " + name + " is given up"
	})
}

// interrupt announces that the provider takes a node: it is cordoned.
func (w *World) interrupt(name string) string {
	n := w.node(name)
	if n == nil {
		return ""
	}
	n.LeavesAt, n.Cordoned = w.State.Now.Add(notice), true
	w.after(notice, func() string { return w.take(name) })
	return name + " is interrupted"
}

// take ends an interrupted node. Its pods are pending again, whether or not they
// may be evicted, except those that were leaving. Its pool's size and target are smaller by one.
func (w *World) take(name string) string {
	n := w.node(name)
	if n == nil {
		return ""
	}
	for _, pod := range w.podsOn(name) {
		if !pod.DaemonSet && !pod.Leaving {
			w.evict(pod)
		}
	}
	p := w.pool(n.Pool)
	w.dropNode(n, p)
	p.Target--
	return name + " is gone"
}

func (w *World) node(name string) *plan.Node {
	i := slices.IndexFunc(w.State.Nodes, func(n plan.Node) bool { return n.Name == name })
	if i < 0 {
		return nil
	}
	return &w.State.Nodes[i]
}

func (w *World) pool(name string) *plan.Pool {
	i := slices.IndexFunc(w.State.Pools, func(p plan.Pool) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &w.State.Pools[i]
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

// Fingerprint is the state as text, without times and the names of nodes. Two equal
// fingerprints with an action between them mean that a planner goes in circles.
func (w *World) Fingerprint() string {
	var lines []string
	for _, p := range w.State.Pools {
		lines = append(lines, fmt.Sprintf("pool %s %d", p.Name, p.Target))
	}
	for _, n := range w.State.Nodes {
		line := fmt.Sprintf("node of %s %v", n.Pool, n.CordonedBy != "")
		if n.Drain != nil {
			line += fmt.Sprintf(" draining %s", n.Drain.Reason)
		}
		for _, c := range n.GPUs {
			line += fmt.Sprintf(" %v", c.AllocatedTo)
			for _, i := range c.Instances {
				line += fmt.Sprintf(" %s=%s", i.Placement, i.AllocatedTo)
			}
			line += ";"
		}
		lines = append(lines, line)
	}
	for i := range w.State.Pods {
		p := &w.State.Pods[i]
		lines = append(lines, fmt.Sprintf("pod %s %v %v %v %v", p.Key(), p.Node != "", p.Leaving, p.Unmade, p.Budgets))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
