package plan

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// State is what the planner keeps from one reconcile to the next. It is
// persisted before any action begins. Plans share its maps, and do not write to them.
type State struct {
	// LastScaleUp, LastScaleDown and LastRepartition are by pool or node. Replacing a
	// node is a scale up of its pool.
	LastScaleUp     Times `json:"lastScaleUp"`
	LastScaleDown   Times `json:"lastScaleDown"`
	LastRepartition Times `json:"lastRepartition"`
	// FreeSince is when a node ("n1") or GPU ("n1/0") was first seen free, where
	// the snapshot has no time.
	//
	// FreeSince, UnknownSince and ShortSince need not survive a restart. Without them
	// a node is removed later by as long as it had been empty, and unknown allocations
	// and overdue requests get their delay again.
	FreeSince Times `json:"freeSince"`
	// UnknownSince is since when a node has had a GPU of unknown allocation.
	UnknownSince Times `json:"unknownSince"`
	// ShortSince is since when a pool has had fewer nodes than its target.
	ShortSince Times `json:"shortSince"`
	// SickSince is when a node was first seen with a sick GPU.
	SickSince Times `json:"sickSince"`
	// LastReplace is when a node of a pool was last replaced.
	LastReplace Times `json:"lastReplace"`
	// LastDrain is when a pool's last drain began or was given up.
	LastDrain Times `json:"lastDrain"`
	// LastRegret is when a pool was last scaled up within ten minutes of a removal of a node of
	// it. It need not survive a restart: without it empty nodes go sooner, once.
	LastRegret Times `json:"lastRegret"`
	// Grown are the nodes added within the last hour, by pool, ascending.
	Grown map[string][]Growth `json:"grown"`
	// Removed are the nodes removed within the last ten minutes, as Grown.
	Removed map[string][]Growth `json:"removed"`
	// Failures are GPUs ("n1/0") whose repartition has failed, where each failure
	// doubles the pause before the next attempt, and nodes whose drain was given up,
	// which are not drained for an hour.
	Failures map[string]Failure `json:"failures"`
}

// Times are times by name.
type Times map[string]time.Time

// Growth is a number of nodes added or removed at one time.
type Growth struct {
	At    time.Time `json:"at"`
	Nodes int       `json:"nodes"`
}

// Failure is a count of consecutive failures.
type Failure struct {
	Count int       `json:"count"`
	At    time.Time `json:"at"` // of the last one
}

// asOf is the state in which no time is after now: what a clock that was ahead has recorded counts as recorded now.
// Otherwise cooldowns and limits would last until then. FreeSince, UnknownSince and SickSince are read by since.
func (m State) asOf(now time.Time) State {
	for _, times := range []*Times{&m.LastScaleUp, &m.LastScaleDown, &m.LastRepartition, &m.LastReplace, &m.LastDrain, &m.LastRegret, &m.ShortSince} {
		for name, at := range *times {
			if at.After(now) {
				*times = with(*times, name, now)
			}
		}
	}
	for _, growths := range []*map[string][]Growth{&m.Grown, &m.Removed} {
		for pool, list := range *growths {
			if i := slices.IndexFunc(list, func(g Growth) bool { return g.At.After(now) }); i >= 0 { // and those after it
				list = slices.Clone(list)
				for ; i < len(list); i++ {
					list[i].At = now
				}
				*growths = with(*growths, pool, list)
			}
		}
	}
	for name, f := range m.Failures {
		if f.At.After(now) {
			m.Failures = with(m.Failures, name, Failure{f.Count, now})
		}
	}
	return m
}

// Without returns a plan's state for the case that its actions on some pools and nodes are not executed: the
// records of these pools and nodes are those of the state before.
func (m State) Without(before State, pool, node func(name string) bool) State {
	m.LastScaleUp = replaced(m.LastScaleUp, before.LastScaleUp, pool)
	m.LastScaleDown = replaced(m.LastScaleDown, before.LastScaleDown, pool)
	m.LastReplace = replaced(m.LastReplace, before.LastReplace, pool)
	m.LastDrain = replaced(m.LastDrain, before.LastDrain, pool)
	m.LastRegret = replaced(m.LastRegret, before.LastRegret, pool)
	m.LastRepartition = replaced(m.LastRepartition, before.LastRepartition, node)
	m.Grown = replaced(m.Grown, before.Grown, pool)
	m.Removed = replaced(m.Removed, before.Removed, pool)
	m.Failures = replaced(m.Failures, before.Failures, func(name string) bool { // of a node or a GPU of it
		of, _, _ := strings.Cut(name, "/")
		return node(of)
	})
	return m
}

// replaced is a copy with the chosen names' entries of before, and the other entries of after.
func replaced[M ~map[string]V, V any](after, before M, chosen func(string) bool) M {
	out := kept(after, func(name string, _ V) bool { return !chosen(name) })
	maps.Copy(out, kept(before, func(name string, _ V) bool { return chosen(name) }))
	return out
}

// kept is a copy with the entries for which stays is true.
func kept[M ~map[string]V, V any](m M, stays func(name string, v V) bool) M {
	out := M{}
	for name, v := range m {
		if stays(name, v) {
			out[name] = v
		}
	}
	return out
}

// with is a copy with one more entry.
func with[M ~map[string]V, V any](m M, name string, v V) M {
	out := kept(m, func(string, V) bool { return true })
	out[name] = v
	return out
}

// forgetAfter is how long a stamp outlives its pool or node: a node that only
// flickers must not lose its cooldown.
const forgetAfter = time.Hour

// recordFree records since when a node and its GPUs have been free, where the snapshot
// has no time. Records of allocated ones are dropped.
func (cond *conditions) recordFree(n *nodeState, since Times) {
	if len(n.GPUs) > 0 && !n.unstated {
		return
	}
	if n.bound == 0 && n.notFree == "" {
		cond.state.FreeSince[n.name] = cond.since(since, n.name)
	}
	for c := range n.GPUs {
		if device := &n.GPUs[c]; device.free() && device.releasedAt().IsZero() {
			name := gpuName(n.name, device.Index)
			cond.state.FreeSince[name] = cond.since(since, name)
		}
	}
}

// nextState is the state to persist, without times of pools and nodes that were
// deleted more than forgetAfter ago.
func (w *world) nextState() State {
	m := w.state
	for _, times := range []*Times{&m.LastScaleUp, &m.LastScaleDown, &m.LastReplace, &m.LastDrain, &m.LastRegret} {
		*times = w.pruned(*times, func(name string) bool { return w.poolNamed(name) != nil })
	}
	m.LastRepartition = w.pruned(m.LastRepartition, func(name string) bool { return w.nodeIndex(name) >= 0 })
	m.Failures = kept(m.Failures, func(_ string, f Failure) bool { return w.now.Sub(f.At) <= longestPause+forgetAfter })
	m.Removed, m.Grown = w.recentOf(m.Removed, removalWindow), w.recentOf(m.Grown, time.Hour)
	return m
}

func (cond *conditions) pruned(times Times, there func(string) bool) Times {
	return kept(times, func(name string, at time.Time) bool { return there(name) || cond.now.Sub(at) <= forgetAfter })
}

func (cond *conditions) recentOf(all map[string][]Growth, window time.Duration) map[string][]Growth {
	out := map[string][]Growth{}
	for pool, list := range all {
		list = slices.DeleteFunc(slices.Clone(list), func(g Growth) bool { return cond.now.Sub(g.At) >= window })
		if len(list) > 0 {
			out[pool] = list
		}
	}
	return out
}

// grown is a copy with n more nodes of a pool, now.
func (cond *conditions) grown(all map[string][]Growth, pool string, n int) map[string][]Growth {
	list := slices.Clone(all[pool])
	if last := len(list) - 1; last >= 0 && list[last].At.Equal(cond.now) {
		list[last].Nodes += n
	} else {
		list = append(list, Growth{cond.now, n})
	}
	return with(all, pool, list)
}

// nodesSince counts the nodes of growths that are less than a window old.
func nodesSince(list []Growth, now time.Time, window time.Duration) int {
	sum := 0
	for _, g := range list {
		if now.Sub(g.At) < window {
			sum += max(g.Nodes, 0)
		}
	}
	return sum
}

// removalWindow is the window of MaxRemovalsPerTenMinutes.
const removalWindow = 10 * time.Minute

// RemovedLately counts the nodes removed within the ten minutes before now.
func (m *State) RemovedLately(now time.Time) int {
	sum := 0
	for _, list := range m.Removed {
		sum += nodesSince(list, now, removalWindow)
	}
	return sum
}

// GrownLately counts the nodes requested of a pool within the hour before now.
func (m *State) GrownLately(pool string, now time.Time) int {
	return nodesSince(m.Grown[pool], now, time.Hour)
}

// drainAgainAfter is the time from a failed drain of a node to the next.
const drainAgainAfter = time.Hour

// longestPause bounds the backoff of what keeps failing.
const longestPause = time.Hour

// fail records one more failure.
func (cond *conditions) fail(name string) {
	cond.state.Failures = with(cond.state.Failures, name, Failure{clampCount(cond.state.Failures[name].Count) + 1, cond.now})
}

// failOperation counts the failure of a repartition. It counts it once, although each
// reconcile sees it until it is rolled back.
func (cond *conditions) failOperation(n *nodeState, o *Operation) {
	name := gpuName(n.name, o.GPU)
	if f := cond.state.Failures[name]; f.Count == 0 || f.At.Before(o.Started) {
		cond.fail(name)
	}
}

// repartitionAgainAt is when a GPU whose repartition failed is tried again, zero for no
// failure: each failure doubles the pause.
func (cond *conditions) repartitionAgainAt(n *nodeState, device int) time.Time {
	if len(cond.state.Failures) == 0 {
		return time.Time{}
	}
	f := cond.state.Failures[gpuName(n.name, device)]
	if f.Count <= 0 {
		return time.Time{}
	}
	return f.At.Add(min(min(cond.policy.RepartitionCooldown, longestPause)<<min(f.Count, 20), longestPause))
}
