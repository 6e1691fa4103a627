package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// karpenter has Karpenter's rules with its defaults (sigs.k8s.io/karpenter at
// 2266468, 2026-08). Pods are batched until 1 s passes without a new one, 10 s at most.
// Those that fit no upcoming node open NodeClaims, the pods with most CPU and then most
// memory first. A NodeClaim has the pools whose nodes fit all its pods, and becomes a
// node of the cheapest.
//
// Every 10 s one command is sought, with consolidateAfter 0s and
// WhenEmptyOrUnderutilized, the first of these that there is:
//   - All empty nodes leave.
//   - The longest run of nodes leaves whose pods fit elsewhere and on one cheaper new
//     node. The run begins with the nodes that save most for an eviction.
//   - One such node leaves.
//
// Spot nodes are not replaced by spot nodes (the feature gate SpotToSpotConsolidation is
// off). The command is checked again after 15 s and then carried out. At most 10 % of a
// pool's nodes leave at a time. A replacement is ready before its node is drained. An
// interrupted node is drained at once.
type karpenter struct {
	known         map[string]bool // pending pods that were batched or are in the window
	first, latest time.Time       // first and latest new pod of the window; zero for no window
	tried         time.Time       // when pods were last batched
	polled        time.Time       // when a command was last sought
	command       *command        // that waits for its check or its replacement; nil for none
}

const (
	batchIdle     = time.Second
	batchMost     = 10 * time.Second
	poll          = 10 * time.Second
	validateAfter = 15 * time.Second
	budget        = 10  // percent of a pool's nodes that may leave at a time, rounded up
	candidates    = 100 // most nodes with pods in one command
)

// command is a disruption: nodes that leave, and the pool of their replacement.
type command struct {
	nodes       []string
	empty       bool      // the nodes are empty
	replacement string    // pool, empty for none
	at          time.Time // when it was found
	size        int       // ready nodes of that pool with the replacement; 0 until it is requested
}

func (k *karpenter) again(*plan.Snapshot) bool { return !k.first.IsZero() || k.command != nil }

func (k *karpenter) plan(s plan.Snapshot) plan.Plan {
	out := plan.Plan{At: s.Now}
	s.Pools = slices.Clone(s.Pools) // their targets change here
	act := func(a plan.Action) { out.Actions = append(out.Actions, a) }
	leaving := slices.ContainsFunc(s.Nodes, func(n plan.Node) bool { return leaves(&n) })
	due := k.command != nil && s.Now.Sub(k.command.at) >= validateAfter || k.command == nil && s.Now.Sub(k.polled) >= poll
	batched := k.batched(&s)
	var f *nodes
	if leaving || due || batched {
		f = look(&s)
	}
	for i := range s.Nodes {
		switch n := &s.Nodes[i]; {
		case n.Drain == nil && !n.LeavesAt.IsZero():
			act(on(n, plan.Drain, plan.NodeInterrupted))
		case n.Drain != nil && len(f.hosts[i].Pods) == 0:
			act(on(n, plan.RemoveNode, n.Drain.Reason))
		}
	}
	if batched {
		made := provision(&s, upcoming(&s, byRequest(f.pending)))
		for i := range s.Pools {
			if pool := &s.Pools[i]; made[pool] > 0 {
				act(plan.Action{Verb: plan.ScaleUp, Pool: pool.Name, From: pool.Target, To: pool.Target + made[pool]})
				pool.Target += made[pool]
			}
		}
	}
	switch {
	case !due:
	case k.command != nil:
		for _, a := range k.execute(&s, f) {
			act(a)
		}
	default:
		k.polled = s.Now
		k.command = k.disruption(&s, f)
	}
	return out
}

// batched reports whether nodes for pending pods are requested now: the window closes, or
// pods that stayed pending are due again, every 10 s.
func (k *karpenter) batched(s *plan.Snapshot) bool {
	now := map[string]bool{}
	for _, p := range pendingPods(s) {
		key := p.Key()
		now[key] = true
		if !k.known[key] {
			k.latest = s.Now
			if k.first.IsZero() {
				k.first = s.Now
			}
		}
	}
	k.known = now
	closes := !k.first.IsZero() && (s.Now.Sub(k.latest) >= batchIdle || s.Now.Sub(k.first) >= batchMost)
	if !closes && (len(now) == 0 || !k.first.IsZero() || s.Now.Sub(k.tried) < poll) {
		return false
	}
	k.first, k.tried = time.Time{}, s.Now
	return true
}

func byRequest(pods []*plan.Pod) []*plan.Pod {
	slices.SortStableFunc(pods, func(a, b *plan.Pod) int {
		return cmp.Or(cmp.Compare(b.CPUMilli, a.CPUMilli), cmp.Compare(b.MemoryMi, a.MemoryMi))
	})
	return pods
}

// cheapest is the pool of the claim with the lowest price.
func (c claim) cheapest() *plan.Pool {
	var best *plan.Pool
	for p := range c {
		if best == nil || p.PricePerHour < best.PricePerHour || p.PricePerHour == best.PricePerHour && p.Name < best.Name {
			best = p
		}
	}
	return best
}

// growing are the pools that can add a node.
func growing(s *plan.Snapshot) (pools []*plan.Pool) {
	for i := range s.Pools {
		if p := &s.Pools[i]; p.Target < p.Max {
			pools = append(pools, p)
		}
	}
	return pools
}

// provision returns how many nodes of each pool are requested for pods.
func provision(s *plan.Snapshot, pods []*plan.Pod) map[*plan.Pool]int {
	made := map[*plan.Pool]int{}
	all, _ := claims(growing(s), pods, len(pods))
	for _, c := range all {
		if p := c.cheapest(); p.Target+made[p] < p.Max {
			made[p]++
		}
	}
	return made
}

// disruption is the next command, nil for none.
func (k *karpenter) disruption(s *plan.Snapshot, f *nodes) *command {
	left := map[string]int{} // by pool, how many nodes may leave
	for i := range s.Nodes {
		left[s.Nodes[i].Pool]++
	}
	for pool, n := range left {
		left[pool] = (n*budget + 99) / 100
	}
	for i := range s.Nodes {
		if leaves(&s.Nodes[i]) {
			left[s.Nodes[i].Pool]--
		}
	}
	c := &command{empty: true, at: s.Now}
	var full []int
	for i := range f.hosts {
		switch n := &f.hosts[i]; {
		case leaves(n.Node) || !n.Ready || left[n.Node.Pool] <= 0 || !f.evictable(i):
		case len(n.Pods) > 0:
			full = append(full, i)
		case f.empty(i):
			left[n.Node.Pool]--
			c.nodes = append(c.nodes, n.Name)
		}
	}
	if len(c.nodes) > 0 {
		return c
	}
	slices.SortStableFunc(full, func(a, b int) int { return cmp.Compare(f.ratio(b), f.ratio(a)) })
	var several []int
	for _, i := range full {
		if pool := s.Nodes[i].Pool; left[pool] > 0 && len(several) < candidates {
			left[pool]--
			several = append(several, i)
		}
	}
	// The longest run that can leave, by halving, of two nodes at least.
	var best *command
	for low, high := 2, len(several); low <= high; {
		middle := (low + high) / 2
		if c := f.without(several[:middle]); c != nil {
			best, low = c, middle+1
		} else {
			high = middle - 1
		}
	}
	for i := 0; i < len(full) && best == nil; i++ {
		best = f.without(full[i : i+1])
	}
	return best
}

// leaves reports whether a node is drained or interrupted.
func leaves(n *plan.Node) bool { return n.Drain != nil || !n.LeavesAt.IsZero() }

// ratio is what a node's removal saves an hour, divided by the cost of the disruption: 1,
// and 1 for each pod.
func (f *nodes) ratio(i int) float64 {
	return f.hosts[i].Pool.PricePerHour / float64(1+len(f.hosts[i].Pods))
}

// without returns the command with which these nodes leave, or nil. Their pods must fit
// elsewhere, or elsewhere and on one new node that is cheaper than these nodes together.
// Where several leave, the new node must also be cheaper than each of them whose pool it
// may be of: otherwise that node could stay.
func (f *nodes) without(of []int) *command {
	c := &command{at: f.s.Now}
	below := 0.0
	for _, i := range of {
		c.nodes = append(c.nodes, f.hosts[i].Name)
		below += f.hosts[i].Pool.PricePerHour
	}
	left := f.elsewhere(of)
	if len(left) == 0 {
		return c
	}
	// Upcoming nodes are first for the pods that are pending already.
	rest := upcoming(f.s, append(byRequest(f.pending), byRequest(left)...))
	rest = slices.DeleteFunc(rest, func(p *plan.Pod) bool { return p.Node == "" })
	made, without := claims(growing(f.s), rest, 1)
	switch {
	case len(without) > 0:
		return nil
	case len(made) == 0:
		return c // they fit upcoming nodes
	}
	for _, i := range of {
		if _, same := made[0][f.hosts[i].Pool]; same && len(of) > 1 {
			below = min(below, f.hosts[i].Pool.PricePerHour)
		}
	}
	p := made[0].cheapest()
	if p.PricePerHour >= below || p.Spot { // all pools are spot, or none is
		return nil
	}
	c.replacement = p.Name
	return c
}

// execute carries out the command after it was checked again: first its replacement is
// requested, and once that is ready the nodes are drained or removed. A replacement that
// is not ready after sim.Registration ends the command.
func (k *karpenter) execute(s *plan.Snapshot, f *nodes) []plan.Action {
	c := k.command
	var of []int
	for _, name := range c.nodes {
		i := slices.IndexFunc(f.hosts, func(n sim.Host) bool { return n.Name == name && !leaves(n.Node) })
		if i >= 0 && f.evictable(i) && (!c.empty || f.empty(i)) {
			of = append(of, i)
		}
	}
	if c.size == 0 && (len(of) < len(c.nodes) || !c.empty && f.without(of) == nil) {
		k.command = nil // something has changed
		return nil
	}
	if i := slices.IndexFunc(s.Pools, func(p plan.Pool) bool { return p.Name == c.replacement }); i >= 0 {
		p := &s.Pools[i]
		switch late := s.Now.Sub(c.at) >= sim.Registration; {
		case c.size == 0:
			c.size = ready(s, p) + 1
			return []plan.Action{{Verb: plan.ScaleUp, Pool: p.Name, From: p.Target, To: p.Target + 1}}
		case ready(s, p) < c.size && late:
			of = nil
		case ready(s, p) < c.size:
			return nil
		}
	}
	k.command = nil
	var out []plan.Action
	for _, i := range of {
		if n := &f.hosts[i]; len(n.Pods) == 0 {
			out = append(out, on(n.Node, plan.RemoveNode, plan.NodeEmpty))
		} else {
			out = append(out, on(n.Node, plan.Drain, plan.NodeUnderused))
		}
	}
	return out
}
