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

// learnAfter is how long a pool's ready nodes must differ from its template before a new node is expected to: on one that
// has just come up, plugins and feature discovery may not be done. learnedFor is how long that lasts without such nodes.
// cluster-autoscaler (0470fdf, processors/nodeinfosprovider) takes a node for the template after the same minute, and for
// ten years: it would not try a group again whose image was corrected.
const learnAfter, learnedFor = time.Minute, 6 * time.Hour

// newFor is how long a node is new: what differs on it has been so since it was made.
const newFor = time.Hour

// learned is how the ready nodes of a pool have differed from its template.
type learned struct {
	of string // the pool's UID and generation
	by map[aspect]difference
	// common are the machine labels, and offeredBy, that all of the last ready nodes had.
	common  map[string]string
	byClaim bool       // their GPUs were divided as MIG devices were claimed
	had     []plan.Pod // of DaemonSets, and static ones, on most of the last ready nodes
	// newest is the last node that became ready, as it was when it was last settled, and has its devices of DRA's drivers.
	newest  *corev1.Node
	devices []*foreign.Devices
	settled time.Time
}

// aspect is what is compared: a label KEY=VALUE, an amount by its name, or a taint that all nodes have.
type aspect struct {
	label, amount string
	taint         plan.Taint
}

// difference is the most that one of the nodes has. Of a taint it is 0, where a node without it has 1.
type difference struct {
	most        int64
	since, seen time.Time
}

// learner corrects the template of one pool.
type learner struct {
	learned
	nodes []*plan.Node // in service, with GPUs
	now   time.Time
	// from is since when a difference counts that is seen for the first time. It is zero where that does not count: no node
	// is new, so that something has changed on old ones, and a plugin may have failed.
	from time.Time
}

// expected is how much a new node has of what its template states, by how much each ready node has.
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

// template corrects what is no size, and says how nodes differ from it. In MIG mode GPUs are counted by their instances.
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

// size corrects CPU and memory: the largest node's.
func (l *learner) size(t *plan.Template) {
	t.CPUMilli = l.expected(aspect{amount: "cpu"}, t.CPUMilli, func(n *plan.Node) int64 { return cmp.Or(n.CPUMilli, t.CPUMilli) })
	t.MemoryMi = l.expected(aspect{amount: "memory"}, t.MemoryMi, func(n *plan.Node) int64 { return cmp.Or(n.MemoryMi, t.MemoryMi) })
}

// gpus learns whether the GPUs of a new node will be divided as MIG devices are claimed, as those before.
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

// labels learns what the labels of a new node will be, as all those before have them.
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

// taints returns those that all ready nodes may have, or had, and that the template does not state, sorted.
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

// learn completes the pools with what their nodes are, and returns the ready ones of each.
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

// learnNodes corrects the templates of pools by their ready nodes, as far as these are less than they state: else pods
// that only the template admits would get node after node. A new node has no more GPUs and other resources than the best of
// the nodes, no more CPU and memory than the largest, no label that none of the nodes has, and
// each taint that all have. A pool without nodes is like those that state the same CPU and memory, so that similar
// pools stay similar. Of all that, the pods of DaemonSets have their part.
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
		first := l.of != of // nodes that came long before have differed for as long
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
