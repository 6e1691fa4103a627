package plan

import (
	"slices"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
)

// judgeNodes computes from when on each node is supply, and sets hold.
func (w *world) judgeNodes() {
	unready, ours := 0, 0
	for i, n := range w.eachNode() {
		w.judgeNode(n)
		if n.pool == nil {
			continue
		}
		ours++
		p := n.pool
		if n.tier == tierNode {
			p.registered = append(p.registered, i)
		}
		if n.since == NodeUnready {
			unready++
			p.unready++
		}
		p.newest = later(p.newest, n.Created)
	}
	switch {
	case w.policy.Freeze:
		w.hold = Frozen
	case w.policy.tooManyUnready(unready, ours):
		w.hold = TooManyUnready
	}
}

// tooManyUnready reports whether so many nodes, of the cluster or of one pool, are unready that all are suspect.
func (policy *Policy) tooManyUnready(unready, of int) bool {
	return unready > max(policy.OKUnready, 0) && float64(unready) > policy.MaxUnready*float64(of)
}

// bindRunning takes the requests of running pods off their nodes' capacity, and returns the
// pods of gangs.
func (w *world) bindRunning() (ganged []*Pod) {
	var leaving []placedPod
	for _, r := range w.running {
		w.notePod(r.pod)
		if r.pod.Gang != "" {
			ganged = append(ganged, r.pod)
		}
		if r.node < 0 {
			continue
		}
		n, p := &w.nodes[r.node], r.pod
		n.pods = append(n.pods, p)
		switch {
		case p.DaemonSet: // whose successor takes what it has
		case p.Stuck(w.now):
			n.stuck = append(n.stuck, p)
			n.idle = min(n.idle, w.now.Sub(p.LeavesAt)-StuckAfter)
		case p.Leaving:
			n.bound++
			n.leaving++
			n.leftAt = later(n.leftAt, w.gone(p))
			leaving = append(leaving, r)
		default:
			n.bound++
		}
		w.models.takeRunning(w.models.located(n, p), &n.capacity)
		if p.Unreadable != "" && n.unknown { // it may have any device
			n.whole, n.parts, n.free, n.divided = 0, nil, nil, nil
		}
	}
	for i := range w.nodes {
		n := &w.nodes[i]
		n.discountAllocated()
		w.models.limitSick(n)
		if n.notFree == NodeBusy && (n.bound == 0 || len(n.stuck) > 0) && !n.inUse() {
			if n.notFree = ""; n.unknown {
				n.notFree = AllocationUnknown
			}
		}
	}
	for _, r := range leaving {
		w.models.putBack(w.models.located(&w.nodes[r.node], r.pod), &w.nodes[r.node].capacity)
	}
	return ganged
}

// fitsBeside reports whether a pod of the kind fits a node now, while leaving pods still have
// their devices there, and their rules still keep other pods away. Where other pods are promised
// these devices, what is free now counts as theirs first, so that nothing is promised twice.
func (w *world) fitsBeside(k *kind, n *nodeState) bool {
	if n.tier != tierChange || n.since != PodLeaving || w.models.lacks(k, &n.capacity) != "" {
		return false
	}
	left := n.capacity.clone()
	for _, p := range n.pods {
		if p.Leaving && !p.DaemonSet && !p.Stuck(w.now) || w.evictions.pods[p] {
			if keptApart(k.pod, p) || keptApart(p, k.pod) {
				return false
			}
			w.models.takeRunning(w.models.located(n, p), &left)
		}
	}
	return w.models.lacks(k, &left) == "" && !slices.ContainsFunc(left.parts, func(s part) bool { return min(s.core, s.memory, s.places) < 0 })
}

// keptApart reports whether a pod's rules keep it apart from another one on some node.
func keptApart(p, other *Pod) bool {
	return slices.ContainsFunc(p.Apart, func(r Apart) bool {
		return slices.Contains(other.Groups, r.Group) && !slices.Contains(other.Groups, r.Except)
	})
}

// supplyGPU adds a GPU to its node's capacity. A GPU that is being repartitioned counts with
// its target layout, and one whose repartition failed without instances.
func (w *world) supplyGPU(n *nodeState, c *GPU, single bool) {
	switch o := n.Operation; {
	case o == nil || o.GPU != c.Index:
		w.models.supplyTo(&n.capacity, c, single)
	case w.failed(o):
		w.models.supplyRepartition(&n.capacity, c, nil, single)
	default:
		w.models.supplyRepartition(&n.capacity, c, o.Target, single)
	}
}

// located is a running pod as it counts on its node. Its demand is without what it has of sick GPUs, since those are no
// capacity. PartsOn are the GPUs of its parts: as its scheduler has recorded them, or else as the allocations show
// them.
func (ms *models) located(n *nodeState, p *Pod) *Pod {
	parts := p.Demand.Fraction != nil && p.Demand.GPUs == 0
	if !n.sick && (!parts || p.PartsOn != nil) {
		return p
	}
	q, key := *p, p.Key()
	for c := range n.GPUs {
		if parts && p.PartsOn == nil && slices.Contains(n.GPUs[c].AllocatedTo, key) {
			q.PartsOn = append(q.PartsOn, n.GPUs[c].Index)
		}
	}
	q.Demand.MIG = slices.Clone(p.Demand.MIG)
	for c := range n.GPUs {
		device := &n.GPUs[c]
		switch {
		case device.Health != gpu.Sick:
		case slices.Contains(q.PartsOn, device.Index):
			q.Demand.Fraction, q.PartsOn = partsElsewhere(q.Demand.Fraction, q.PartsOn, device.Index)
		case q.Demand.GPUs > 0 && slices.Contains(device.AllocatedTo, key):
			q.Demand.GPUs--
		default:
			for i := range device.Instances {
				if in := &device.Instances[i]; in.AllocatedTo == key {
					ms.release(q.Demand.MIG, device.Model.Name, in.Profile)
				}
			}
		}
	}
	return &q
}

// partsElsewhere is a fraction, and the indexes of the GPUs that it is on, without the part on the GPU of one index;
// nil where that part is the only one.
func partsElsewhere(f *demand.Fraction, on []int, index int) (*demand.Fraction, []int) {
	n := max(f.GPUs, 1)
	of := max(len(on), n)
	if of == 1 {
		return nil, nil
	}
	each := func(all int) int { return (all*n + of - 1) / of } // as partsOn
	return &demand.Fraction{CoreMilli: each(f.CoreMilli), MemoryMiB: each(f.MemoryMiB), MemoryMilli: each(f.MemoryMilli), GPUs: of - 1},
		slices.DeleteFunc(slices.Clone(on), func(i int) bool { return i == index })
}

// release removes one instance of a profile from a request on a model.
func (ms *models) release(request []demand.Instances, model string, p mig.Profile) {
	for i := range request {
		if named, ok := ms.profile(model, request[i].Name); ok && named == p && request[i].Count > 0 {
			request[i].Count--
			return
		}
	}
}

func (n *nodeState) operating() bool { return n.Operation != nil }

func (cond *conditions) judgeNode(n *nodeState) {
	n.changeAt = cond.now
	if at, ok := cond.state.LastRepartition[n.name]; ok {
		n.changeAt = later(n.changeAt, at.Add(cond.policy.RepartitionCooldown))
	}
	young := cond.young(n)
	switch {
	case !n.ReadyAt.IsZero() && n.pool == nil && !n.Cordoned:
		n.tier, n.since, n.due = tierNode, NodeUpcoming, n.ReadyAt
	case n.LeavesAt.After(cond.now) && n.Drain == nil: // its provider takes it
		n.since = NodeInterrupted
	case !n.LeavesAt.IsZero() && n.Drain != nil && (young || n.booting): // it is drained for that already
		n.since = NodeDraining
	case !n.Ready && young, young && n.withoutPlugin(), n.booting:
		n.tier, n.since, n.due = tierNode, NodeUpcoming, n.Created.Add(n.pool.ReadyAfter)
		if len(n.GPUs) == 0 {
			own := n.capacity
			n.capacity = n.pool.fresh.clone()
			if n.CPUMilli > 0 { // less what pods of DaemonSets use already
				n.cpu = own.cpu
			}
			if n.MemoryMi > 0 {
				n.memory = own.memory
			}
			n.expected = n.pool.Template.GPUs
		}
	case !n.Ready, n.pool != nil && n.withoutPlugin():
		n.since = NodeUnready
	case n.Operation != nil && n.Operation.Phase == PhasePending && !cond.failed(n.Operation):
		n.tier, n.since, n.due = tierChange, WaitRepartition, n.Operation.Started.Add(n.repartitioning())
	case n.Drain != nil:
		n.since = NodeDraining
	case n.CordonedBy != "" || n.Operation != nil && !n.Cordoned:
		n.tier, n.since = tierChange, RepartitionDone
		n.changeAt = later(n.changeAt, cond.now.Add(aMoment))
	case n.Cordoned:
		n.since = NodeCordoned
	case n.leaving > 0:
		n.tier, n.since, n.due = tierChange, PodLeaving, n.leftAt
	default:
		n.tier = tierNow
	}
	n.at = later(cond.now, n.due)
	n.changeAt = later(n.changeAt, n.at)
}

// interrupted is the node as the planner treats it. Once its provider has announced an
// interruption, a drain under way becomes the interruption's: such a drain is never given up for
// a pod.
func (cond *conditions) interrupted(n *Node) *Node {
	if n.Drain == nil || !n.LeavesAt.After(cond.now) {
		return n
	}
	own := *n
	own.Drain = &Draining{Started: n.Drain.Started, Deadline: n.LeavesAt, Reason: NodeInterrupted}
	return &own
}

// withoutPlugin reports a node of a GPU pool that shows no GPU: its device plugin
// is not up yet, or broken.
func (n *nodeState) withoutPlugin() bool {
	return len(n.GPUs) == 0 && len(n.pool.Template.GPUs) > 0
}

// repartitioning is how long a repartition takes on a node.
func (n *nodeState) repartitioning() time.Duration {
	if n.pool == nil {
		return 0
	}
	return max(n.pool.MIG.Duration, 0)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// count is "1 node", "2 nodes".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// short prints a duration without a tail of zeros: "5m", "1h30m", "40s".
func short(d time.Duration) string {
	if d >= time.Second || d <= -time.Second {
		d = d.Round(time.Second)
	}
	return sample.Short(d)
}
