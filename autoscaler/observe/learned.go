package observe

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/plan"
)

// learnAfter is how long a node must have been ready before it shows what a new one lacks: on a node that has just come
// up, device plugins and feature discovery may not be done. learnedFor is how long that counts without such nodes.
// cluster-autoscaler (0470fdf, processors/nodeinfosprovider) uses a node as the template after the same minute, but for
// ten years: it would not try a group again whose image was corrected.
const learnAfter, learnedFor = time.Minute, 6 * time.Hour

// newFor is how long a node is new. What only older nodes lack, for example since a plugin failed, a new one has.
const newFor = time.Hour

// learned is what the ready nodes of a pool have shown of its next node.
type learned struct {
	of string // the pool's UID and generation
	// common are the machine labels, and offeredBy, that all of the last ready nodes had.
	common  map[string]string
	byClaim bool       // a DRA driver divided their GPUs on claim
	had     []plan.Pod // pods of DaemonSets and static pods on most of the last ready nodes
	// most is the most that one of the pool's settled nodes had. The newest of them had these devices of DRA drivers. All as
	// of the time at.
	most    map[aspect]int64
	newest  *corev1.Node
	devices []*foreign.Devices
	at      time.Time
}

// aspect is what is compared with the template: a label KEY=VALUE, an amount by its name, or a taint. Of a label a node
// has 1 or 0. Of a taint, a node with it has 0 and a node without it 1.
type aspect struct {
	label, amount string
	taint         plan.Taint
}

// learner corrects the template of one pool.
type learner struct {
	learned
	nodes   []*plan.Node // in service, with GPUs
	settled []*plan.Node // those of nodes that have been ready for learnAfter
	isNew   bool         // one of them is new, or the spec is: what they lack counts, though they had it before
}

// expected returns how much of an aspect a new node has. stated is what its template has of it, of what a node has.
func (l *learner) expected(what aspect, stated int64, of func(*plan.Node) int64) int64 {
	had, known := l.most[what]
	if len(l.settled) > 0 && (known || l.isNew) {
		most := int64(0)
		for _, n := range l.settled {
			most = max(most, of(n))
		}
		if !l.isNew {
			most = max(most, had)
		}
		l.most[what], had, known = most, most, true
	}
	if !known {
		return stated
	}
	return min(had, stated)
}

// template corrects GPUs, other resources, labels and taints, and writes into Differs how the nodes differ. With mig it
// keeps the number of GPUs, since GPUs are then counted by their MIG devices.
func (l *learner) template(t *plan.Template, mig bool) {
	var differs []string
	if stated := int64(len(t.GPUs)); !mig {
		if n := l.expected(aspect{amount: "GPUs"}, stated, func(n *plan.Node) int64 { return int64(len(n.GPUs)) }); n < stated {
			t.GPUs, differs = t.GPUs[:n], append(differs, fmt.Sprintf("%d of %d GPUs", n, stated))
		}
		if l.expected(aspect{amount: "whole GPUs"}, 1, hasWhole) == 0 && len(t.GPUs) > 0 {
			t.GPUs, differs = slices.Clone(t.GPUs), append(differs, fmt.Sprintf("0 of %d GPUs without MIG", len(t.GPUs)))
			for i := range t.GPUs {
				t.GPUs[i].MIG = true
			}
		}
	}
	var others []plan.Resource
	for _, r := range t.Others {
		n := l.expected(aspect{amount: r.Name}, r.Amount, func(n *plan.Node) int64 { return amountOf(n.Others, r.Name) })
		if n < r.Amount && !ofKubelets(r.Name) {
			differs = append(differs, fmt.Sprintf("%d of %d %s", n, r.Amount, r.Name))
		}
		if r.Amount = n; n > 0 {
			others = append(others, r)
		}
	}
	t.Others = others
	for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
		value := t.Labels[key]
		if l.expected(aspect{label: key + "=" + value}, 1, func(n *plan.Node) int64 {
			own, ok := n.Labels[key]
			return one(ok && (own == value || key == partition.MemoryLabel)) // a little more or less memory is the same product
		}) > 0 {
			continue
		}
		delete(t.Labels, key)
		if !strings.HasPrefix(key, "nvidia.com/") && !plan.MachineLabel(key) { // without feature discovery there is none of these
			differs = append(differs, "no label "+key+"="+value)
		}
	}
	for _, taint := range l.taints(t) {
		if l.expected(aspect{taint: taint}, 1, func(n *plan.Node) int64 { return one(!slices.Contains(n.Taints, taint)) }) == 0 {
			t.Taints, differs = append(t.Taints, taint), append(differs, "taint "+taint.Key)
		}
	}
	t.Differs = strings.Join(differs, ", ")
}

// size lowers CPU and memory to those of the largest node.
func (l *learner) size(t *plan.Template) {
	t.CPUMilli = l.expected(aspect{amount: "cpu"}, t.CPUMilli, func(n *plan.Node) int64 { return cmp.Or(n.CPUMilli, t.CPUMilli) })
	t.MemoryMi = l.expected(aspect{amount: "memory"}, t.MemoryMi, func(n *plan.Node) int64 { return cmp.Or(n.MemoryMi, t.MemoryMi) })
}

// gpus learns whether a DRA driver will divide the GPUs of a new node on claim, as on the ready nodes.
func (l *learner) gpus(t *plan.Template) {
	if len(l.nodes) > 0 {
		l.byClaim = slices.ContainsFunc(l.nodes, func(n *plan.Node) bool {
			return slices.ContainsFunc(n.GPUs, func(g plan.GPU) bool { return g.ByClaim })
		})
	}
	t.GPUs = slices.Clone(t.GPUs)
	for i := range t.GPUs {
		t.GPUs[i].ByClaim = l.byClaim && !t.GPUs[i].MIG
	}
}

// labels adds to the template the labels that all of the last ready nodes have in common: machine labels and offeredBy.
func (l *learner) labels(t *plan.Template) {
	for i, n := range l.nodes {
		if i == 0 {
			l.common = maps.Clone(n.Labels)
			maps.DeleteFunc(l.common, func(key, _ string) bool { return key != offeredBy && !plan.MachineLabel(key) })
			continue
		}
		maps.DeleteFunc(l.common, func(key, value string) bool { return n.Labels[key] != value })
	}
	for key, value := range l.common {
		if _, stated := t.Labels[key]; !stated {
			t.Labels[key] = value
		}
	}
}

// taints returns the taints, sorted, that all ready nodes may have: those of the first node and those learned before,
// without those that the template states.
func (l *learner) taints(t *plan.Template) (out []plan.Taint) {
	if len(l.nodes) > 0 {
		out = slices.Clone(l.nodes[0].Taints)
	}
	for what := range l.most {
		if what.taint.Key != "" && !slices.Contains(out, what.taint) {
			out = append(out, what.taint)
		}
	}
	out = slices.DeleteFunc(out, func(taint plan.Taint) bool {
		return taint.Effect == string(corev1.TaintEffectPreferNoSchedule) || slices.Contains(t.Taints, taint) || pools.PassingTaint(taint.Key)
	})
	slices.SortFunc(out, func(a, b plan.Taint) int {
		return strings.Compare(a.Key+"="+a.Value+":"+a.Effect, b.Key+"="+b.Value+":"+b.Effect)
	})
	return out
}

// hasWhole is 1 if pods may have some of a node's GPUs as GPUs, or could have while no claim divides them; else 0. Some GPUs
// of a node may only be missing: they are not offered while they are tainted or sick.
func hasWhole(n *plan.Node) int64 {
	return one(plan.InstancesAsGPUs(n.Labels) || slices.ContainsFunc(n.GPUs, func(g plan.GPU) bool { return !g.MIG || g.ByClaim }))
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// learn completes the pools by their nodes, and returns the ready nodes of each pool. devices are those of DRA drivers,
// by node.
func (o *Observer) learn(c *cluster, out *Observation, bound map[string][]*plan.Pod, daemons []plan.Pod, devices map[string][]*foreign.Devices) (ready map[string][]*plan.Node) {
	all, ready := grouped(out.Nodes, func(n *plan.Node) string { return n.Pool }), map[string][]*plan.Node{}
	learners := make([]learner, len(out.Pools))
	for i := range out.Pools {
		p := &out.Pools[i]
		p.Size = len(all[p.Name])
		if p.Fixed { // the nodes that exist, no more and no fewer
			p.Min, p.Max, p.Target = p.Size, p.Size, p.Size
		}
		ready[p.Name] = slices.DeleteFunc(all[p.Name], func(n *plan.Node) bool { return !n.Ready })
		learnOthers(&p.Template, withGPUs(ready[p.Name]), out.Now)
		learners[i] = o.learner(c, p, ready[p.Name], devices)
	}
	o.lower(out.Pools, learners)
	for i := range out.Pools {
		p := &out.Pools[i]
		take(&p.Template, learners[i].onNewNode(&p.Template, bound, daemons), out.Tables)
		o.learned[p.Name] = learners[i].learned
	}
	maps.DeleteFunc(o.learned, func(name string, _ learned) bool { return o.managed[name] == nil })
	return ready
}

// learner returns what is known of a pool's next node, by its ready nodes now and before. Cordoned nodes do not count: they
// may be interrupted, and tainted for it.
func (o *Observer) learner(c *cluster, p *plan.Pool, ready []*plan.Node, devices map[string][]*foreign.Devices) learner {
	l := learner{learned: o.learned[p.Name]}
	of := fmt.Sprint(o.managed[p.Name].UID, o.managed[p.Name].Generation)
	if l.of != of {
		l.learned, l.isNew = learned{of: of}, true
	}
	if c.now.Sub(l.at) > learnedFor {
		l.most, l.newest, l.devices = map[aspect]int64{}, nil, nil
	}
	l.nodes = slices.DeleteFunc(withGPUs(ready), func(n *plan.Node) bool { return n.Cordoned })
	for _, n := range l.nodes {
		if !settled(c.byName[n.Name], c.now) {
			continue
		}
		l.settled = append(l.settled, n)
		l.isNew = l.isNew || c.now.Sub(n.Created) < newFor
	}
	if len(l.settled) > 0 {
		newest := slices.MaxFunc(l.settled, func(a, b *plan.Node) int { return a.Created.Compare(b.Created) }).Name
		l.newest, l.devices, l.at = c.byName[newest], devices[newest], c.now
	}
	for _, n := range ready { // one whose GPUs are all tainted has none, but shows what they are
		accelerators := slices.ContainsFunc(devices[n.Name], func(d *foreign.Devices) bool { return demand.IsAccelerator(d.Driver) })
		if l.newest == nil && accelerators && !n.Cordoned && settled(c.byName[n.Name], c.now) {
			l.newest, l.devices = c.byName[n.Name], devices[n.Name]
			if len(c.claims.classes) > 0 {
				l.common = withLabel(l.common, offeredBy, byDRA)
			}
		}
	}
	return l
}

// lower lowers the templates of pools to what their ready nodes have. Otherwise node after node would be added for a pod
// that only the template admits. A new node is expected with no more GPUs and other resources than the best of the nodes,
// no more CPU and memory than the largest, no label that none of the nodes has, and each taint that all have. A pool
// without nodes takes CPU and memory from pools that state the same, so that similar pools stay similar.
func (o *Observer) lower(all []plan.Pool, learners []learner) {
	type size struct{ cpu, memory int64 }
	best, empty := map[size]size{}, map[*plan.Template]size{} // by what they state
	for i := range all {
		t, l := &all[i].Template, &learners[i]
		stated := size{t.CPUMilli, t.MemoryMi}
		l.template(t, all[i].MIG.Repartition || slices.ContainsFunc(t.GPUs, func(g plan.GPU) bool { return g.MIG }))
		l.size(t)
		l.labels(t)
		l.gpus(t)
		if len(l.nodes) > 0 {
			best[stated] = size{max(best[stated].cpu, t.CPUMilli), max(best[stated].memory, t.MemoryMi)}
		} else {
			empty[t] = stated
		}
		var err error
		if t.Differs != "" {
			err = errors.New("its nodes have " + t.Differs)
		}
		o.warn("template of pool "+all[i].Name, err)
	}
	for t, stated := range empty {
		if like, ok := best[stated]; ok {
			t.CPUMilli, t.MemoryMi = min(t.CPUMilli, like.cpu), min(t.MemoryMi, like.memory)
		}
	}
}

// settled reports whether a node has been ready for learnAfter: its drivers have announced its devices by then.
func settled(n *corev1.Node, now time.Time) bool {
	return now.Sub(n.CreationTimestamp.Time) >= learnAfter && slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && now.Sub(c.LastTransitionTime.Time) >= learnAfter
	})
}
