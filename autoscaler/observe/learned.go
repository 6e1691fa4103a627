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
	"github.com/gpuscale/gpuscale/plan"
)

// learnAfter is how long a pool's ready nodes must differ from its template before a new node is expected to differ
// too: on a node that has just come up, device plugins and feature discovery may not be done. learnedFor is how long
// this expectation lasts without ready nodes. cluster-autoscaler (0470fdf, processors/nodeinfosprovider) uses a node as
// the template after the same minute, but for ten years: it would not try a group again whose image was corrected.
const learnAfter, learnedFor = time.Minute, 6 * time.Hour

// newFor is how long a node is new. What differs on a new node has differed since its creation.
const newFor = time.Hour

// learned is how the ready nodes of a pool have differed from its template.
type learned struct {
	of string // the pool's UID and generation
	by map[aspect]difference
	// common are the machine labels, and offeredBy, that all of the last ready nodes had.
	common  map[string]string
	byClaim bool       // a DRA driver divided their GPUs on claim
	had     []plan.Pod // pods of DaemonSets and static pods on most of the last ready nodes
	// newest is the pool's newest settled node and devices are those of DRA drivers on it, both as of the time settled.
	newest  *corev1.Node
	devices []*foreign.Devices
	settled time.Time
}

// aspect is what is compared: a label KEY=VALUE, an amount by its name, or a taint that all nodes have.
type aspect struct {
	label, amount string
	taint         plan.Taint
}

// difference has the most that any of the nodes has. For a taint, a node with it has 0 and a node without it 1.
type difference struct {
	most        int64
	since, seen time.Time
}

// learner corrects the template of one pool.
type learner struct {
	learned
	nodes []*plan.Node // in service, with GPUs
	now   time.Time
	// from is the start of a difference that is first seen now. It is zero where no node is new. Then such a difference
	// does not count: something changed on old nodes, for example a plugin that failed.
	from time.Time
}

// expected returns how much of an aspect a new node has. stated is what its template has of it, of what a ready node
// has.
func (l *learner) expected(what aspect, stated int64, of func(*plan.Node) int64) int64 {
	d := l.by[what]
	if len(l.nodes) > 0 {
		if l.now.Sub(d.seen) > learnedFor {
			d.since = l.from
		}
		d.most, d.seen = 0, l.now
		for _, n := range l.nodes {
			d.most = max(d.most, of(n))
		}
		if d.most >= stated || d.since.IsZero() {
			delete(l.by, what)
			return stated
		}
		l.by[what] = d
	}
	if l.now.Sub(d.since) < learnAfter || l.now.Sub(d.seen) > learnedFor {
		return stated
	}
	return min(d.most, stated)
}

// template corrects GPUs, other resources, labels and taints, and writes into Differs how the nodes differ. With mig it
// keeps the number of GPUs, since GPUs are then counted by their MIG devices.
func (l *learner) template(t *plan.Template, mig bool) {
	var differs []string
	if stated := int64(len(t.GPUs)); !mig {
		if n := l.expected(aspect{amount: "GPUs"}, stated, func(n *plan.Node) int64 { return int64(len(n.GPUs)) }); n < stated {
			t.GPUs, differs = t.GPUs[:n], append(differs, fmt.Sprintf("%d of %d GPUs", n, stated))
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
	for what := range l.by {
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

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// learn completes the pools by their nodes, and returns the ready nodes of each pool.
func (o *Observer) learn(out *Observation, bound map[string][]*plan.Pod, daemons []plan.Pod) (ready map[string][]*plan.Node) {
	all, ready := grouped(out.Nodes, func(n *plan.Node) string { return n.Pool }), map[string][]*plan.Node{}
	for i := range out.Pools {
		p := &out.Pools[i]
		p.Size = len(all[p.Name])
		if p.Fixed { // the nodes that exist, no more and no fewer
			p.Min, p.Max, p.Target = p.Size, p.Size, p.Size
		}
		ready[p.Name] = slices.DeleteFunc(all[p.Name], func(n *plan.Node) bool { return !n.Ready })
		learnOthers(&p.Template, withGPUs(ready[p.Name]), out.Now)
	}
	o.learnNodes(out, ready, bound, daemons)
	maps.DeleteFunc(o.learned, func(name string, _ learned) bool { return o.managed[name] == nil })
	return ready
}

// learnNodes lowers the templates of pools to what their ready nodes have. Otherwise node after node would be added for
// a pod that only the template admits. A new node is expected with no more GPUs and other resources than the best of
// the nodes, no more CPU and memory than the largest, no label that none of the nodes has, and each taint that all
// have. A pool without nodes takes CPU and memory from pools that state the same, so that similar pools stay similar.
// At the end, the requests of DaemonSets' pods are subtracted.
func (o *Observer) learnNodes(out *Observation, ready map[string][]*plan.Node, bound map[string][]*plan.Pod, daemons []plan.Pod) {
	type size struct{ cpu, memory int64 }
	best, empty := map[size]size{}, map[*plan.Template]size{} // by what they state
	learners := make([]learner, len(out.Pools))
	for i := range out.Pools {
		p := &out.Pools[i]
		t := &p.Template
		stated := size{t.CPUMilli, t.MemoryMi}
		of := fmt.Sprint(o.managed[p.Name].UID, o.managed[p.Name].Generation)
		l := &learners[i]
		*l = learner{learned: o.learned[p.Name], now: out.Now}
		first := l.of != of // the first reconcile with this spec: old nodes have differed since their creation
		if first {
			l.learned, l.from = learned{of: of, by: map[aspect]difference{}}, out.Now
		}
		for _, n := range withGPUs(ready[p.Name]) {
			if n.Cordoned { // it may be interrupted, and tainted for it
				continue
			}
			l.nodes = append(l.nodes, n)
			switch {
			case first && n.Created.Before(l.from):
				l.from = n.Created
			case !first && out.Now.Sub(n.Created) < newFor:
				l.from = out.Now
			}
		}
		l.template(t, p.MIG.Repartition || slices.ContainsFunc(t.GPUs, func(g plan.GPU) bool { return g.MIG }))
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
		o.warn("template of pool "+p.Name, err)
	}
	for t, stated := range empty {
		if like, ok := best[stated]; ok {
			t.CPUMilli, t.MemoryMi = min(t.CPUMilli, like.cpu), min(t.MemoryMi, like.memory)
		}
	}
	for i := range out.Pools {
		p := &out.Pools[i]
		take(&p.Template, learners[i].onNewNode(&p.Template, bound, daemons), out.Tables)
		o.learned[p.Name] = learners[i].learned
	}
}
