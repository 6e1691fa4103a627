package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// State is what the planner keeps from one reconcile to the next. It is
// persisted before any action begins.
type State struct {
	// LastScaleUp, LastScaleDown and LastRepartition are by pool or node name,
	// sorted by name. Replacing a node is a scale up of its pool.
	LastScaleUp     []Stamp `json:"lastScaleUp"`
	LastScaleDown   []Stamp `json:"lastScaleDown"`
	LastRepartition []Stamp `json:"lastRepartition"`
	// FreeSince is when a node ("n1") or GPU ("n1/0") was first seen free, where
	// the snapshot has no time. Sorted by name.
	//
	// FreeSince, UnknownSince and ShortSince need not survive a restart. Without them
	// a node is removed later by as long as it had been empty, and unknown allocations
	// and overdue requests get their delay again.
	FreeSince []Stamp `json:"freeSince"`
	// UnknownSince is since when a node has had a GPU of unknown allocation.
	// Sorted by name.
	UnknownSince []Stamp `json:"unknownSince"`
	// ShortSince is since when a pool has had fewer nodes than its target. Sorted by
	// name.
	ShortSince []Stamp `json:"shortSince"`
	// SickSince is when a node was first seen with a sick GPU. Sorted by name.
	SickSince []Stamp `json:"sickSince"`
	// LastReplace is when a node of a pool was last replaced. Sorted by name.
	LastReplace []Stamp `json:"lastReplace"`
	// LastDrain is when a pool's last drain began or was given up. Sorted by name.
	LastDrain []Stamp `json:"lastDrain"`
	// Grown are the nodes added within the last hour. Sorted by pool, then time.
	Grown []Growth `json:"grown"`
	// Removed are the nodes removed within the last ten minutes. Sorted as Grown
	// is.
	Removed []Growth `json:"removed"`
	// Failures are GPUs whose repartition has failed, where each failure doubles
	// the pause before the next attempt, and nodes whose drain was given up, which
	// are not drained for an hour. Sorted by name.
	Failures []Failure `json:"failures"`
}

// Growth is a number of nodes added or removed at one time.
type Growth struct {
	Pool  string    `json:"pool"`
	At    time.Time `json:"at"`
	Nodes int       `json:"nodes"`
}

// Failure is a count of consecutive failures.
type Failure struct {
	Name  string    `json:"name"` // "node/gpu", or "node" for a drain
	Count int       `json:"count"`
	At    time.Time `json:"at"` // of the last one
}

// Stamp is a time recorded under a name.
type Stamp struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// Without returns a plan's state without what its actions record on these pools and nodes, of which it has
// what was before: they are not taken.
func (m State) Without(before State, pool, node func(name string) bool) State {
	of := func(s Stamp) string { return s.Name }
	m.LastScaleUp = replaced(m.LastScaleUp, before.LastScaleUp, of, pool)
	m.LastScaleDown = replaced(m.LastScaleDown, before.LastScaleDown, of, pool)
	m.LastReplace = replaced(m.LastReplace, before.LastReplace, of, pool)
	m.LastDrain = replaced(m.LastDrain, before.LastDrain, of, pool)
	m.LastRepartition = replaced(m.LastRepartition, before.LastRepartition, of, node)
	m.Grown = replaced(m.Grown, before.Grown, func(g Growth) string { return g.Pool }, pool)
	m.Removed = replaced(m.Removed, before.Removed, func(g Growth) string { return g.Pool }, pool)
	return m
}

// replaced has of chosen names before's items, of others after's; sorted by name as both are.
func replaced[T any](after, before []T, name func(T) string, chosen func(string) bool) []T {
	out := slices.DeleteFunc(slices.Clone(after), func(item T) bool { return chosen(name(item)) })
	for _, item := range before {
		if chosen(name(item)) {
			out = append(out, item)
		}
	}
	slices.SortStableFunc(out, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	return out
}

// forgetAfter is how long a stamp outlives its pool or node: a node that only
// flickers must not lose its cooldown.
const forgetAfter = time.Hour

// recordFree records since when nodes and GPUs have been free, where the snapshot
// has no time. Records of allocated ones are dropped.
func (w *world) recordFree() {
	var free []Stamp
	note := func(name string) { free = append(free, Stamp{name, w.since(w.state.FreeSince, name)}) }
	for i := range w.nodes {
		n := &w.nodes[i]
		if n.virtual || n.pool < 0 {
			continue
		}
		if len(n.GPUs) > 0 && !n.use.unstated {
			continue
		}
		if n.bound == 0 && n.use.why == "" {
			note(n.name)
		}
		for c := range n.GPUs {
			if f := &n.facts[c]; f.free && f.idle == idleUnknown {
				note(gpuName(n.name, n.GPUs[c].Index))
			}
		}
	}
	w.state.FreeSince = sortedStamps(free)
}

// nextState is the state to persist, without stamps of pools and nodes that were
// deleted more than forgetAfter ago.
func (w *world) nextState() State {
	isNode := func(name string) bool { return w.nodeIndex(name) >= 0 }
	isPool := func(name string) bool { return w.poolIndex(name) >= 0 }
	m := w.state
	for _, list := range []*[]Stamp{&m.LastScaleUp, &m.LastScaleDown, &m.LastReplace, &m.LastDrain} {
		*list = w.pruned(*list, isPool)
	}
	m.LastRepartition = w.pruned(m.LastRepartition, isNode)
	m.Failures = slices.DeleteFunc(slices.Clone(m.Failures), func(f Failure) bool { return w.now.Sub(f.At) > longestPause+forgetAfter })
	m.Removed = slices.DeleteFunc(slices.Clone(m.Removed), func(g Growth) bool { return w.now.Sub(g.At) >= removalWindow })
	m.Grown = slices.DeleteFunc(slices.Clone(m.Grown), func(g Growth) bool { return w.now.Sub(g.At) >= time.Hour })
	return m
}

func (w *world) pruned(list []Stamp, exists func(string) bool) []Stamp {
	return slices.DeleteFunc(slices.Clone(list), func(s Stamp) bool {
		return !exists(s.Name) && w.now.Sub(s.At) > forgetAfter
	})
}

// stampAt returns the time recorded under name in a sorted list.
func stampAt(list []Stamp, name string) (time.Time, bool) {
	i, ok := stampIndex(list, name)
	if !ok {
		return time.Time{}, false
	}
	return list[i].At, true
}

func stampIndex(list []Stamp, name string) (int, bool) {
	return slices.BinarySearchFunc(list, name, func(s Stamp, n string) int { return strings.Compare(s.Name, n) })
}

// since is the time recorded under name in a sorted list, now where there is none that has passed.
func (w *world) since(list []Stamp, name string) time.Time {
	if at, ok := stampAt(list, name); ok && !at.After(w.now) {
		return at
	}
	return w.now
}

// stamped returns a sorted copy of list with name at the given time.
func stamped(list []Stamp, name string, at time.Time) []Stamp {
	i, ok := stampIndex(list, name)
	out := slices.Clone(list)
	if ok {
		out[i].At = at
		return out
	}
	return slices.Insert(out, i, Stamp{name, at})
}

// sortedStamps returns a sorted copy with one stamp, the latest, for each name.
func sortedStamps(list []Stamp) []Stamp {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b Stamp) int { return cmp.Or(strings.Compare(a.Name, b.Name), b.At.Compare(a.At)) })
	return slices.CompactFunc(out, func(a, b Stamp) bool { return a.Name == b.Name })
}

// sortedState is a copy in order.
func sortedState(m State) State {
	out := State{
		LastScaleUp: sortedStamps(m.LastScaleUp), LastScaleDown: sortedStamps(m.LastScaleDown),
		LastRepartition: sortedStamps(m.LastRepartition), FreeSince: sortedStamps(m.FreeSince),
		UnknownSince: sortedStamps(m.UnknownSince), ShortSince: sortedStamps(m.ShortSince), SickSince: sortedStamps(m.SickSince),
		LastReplace: sortedStamps(m.LastReplace), LastDrain: sortedStamps(m.LastDrain),
		Grown: slices.Clone(m.Grown), Removed: slices.Clone(m.Removed), Failures: slices.Clone(m.Failures),
	}
	for _, list := range [][]Growth{out.Grown, out.Removed} {
		slices.SortFunc(list, func(a, b Growth) int {
			return cmp.Or(strings.Compare(a.Pool, b.Pool), a.At.Compare(b.At), cmp.Compare(a.Nodes, b.Nodes))
		})
	}
	slices.SortFunc(out.Failures, func(a, b Failure) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), b.At.Compare(a.At), cmp.Compare(a.Count, b.Count))
	})
	out.Failures = slices.CompactFunc(out.Failures, func(a, b Failure) bool { return a.Name == b.Name })
	return out
}

// drainAgainAfter is the time from a failed drain of a node to the next.
const drainAgainAfter = time.Hour

// longestPause bounds the backoff of what keeps failing.
const longestPause = time.Hour

// failure returns the recorded failures of a name; the count is 0 for none.
func (w *world) failure(name string) Failure {
	if i, ok := w.failureIndex(name); ok {
		return w.state.Failures[i]
	}
	return Failure{Name: name}
}

func (w *world) failureIndex(name string) (int, bool) {
	return slices.BinarySearchFunc(w.state.Failures, name, func(f Failure, n string) int { return strings.Compare(f.Name, n) })
}

// fail records one more failure.
func (w *world) fail(name string) {
	i, ok := w.failureIndex(name)
	w.state.Failures = slices.Clone(w.state.Failures)
	if !ok {
		w.state.Failures = slices.Insert(w.state.Failures, i, Failure{Name: name})
	}
	w.state.Failures[i].Count = clampCount(w.state.Failures[i].Count) + 1
	w.state.Failures[i].At = w.now
}

// succeed removes the recorded failures.
func (w *world) succeed(name string) {
	if i, ok := w.failureIndex(name); ok {
		w.state.Failures = slices.Delete(slices.Clone(w.state.Failures), i, i+1)
	}
}

// failOperation counts the failure of a repartition, once for all reconciles until
// it is rolled back.
func (w *world) failOperation(n *nodeState, o *Operation) {
	name := gpuName(n.name, o.GPU)
	if f := w.failure(name); f.Count == 0 || f.At.Before(o.Started) {
		w.fail(name)
	}
}

// repartitionAgainAt is when a GPU whose repartition failed is tried again, zero for no
// failure: each failure doubles the pause.
func (w *world) repartitionAgainAt(n *nodeState, device int) time.Time {
	if len(w.state.Failures) == 0 {
		return time.Time{}
	}
	f := w.failure(gpuName(n.name, device))
	if f.Count <= 0 {
		return time.Time{}
	}
	return f.At.Add(w.pauseAfter(f.Count))
}

func (w *world) pauseAfter(failures int) time.Duration {
	pause := w.policy.RepartitionCooldown
	for range min(failures, 62) {
		if pause >= longestPause/2 {
			return longestPause
		}
		pause *= 2
	}
	return pause
}
