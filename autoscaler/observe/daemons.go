package observe

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// daemons returns one pod of each DaemonSet, made from its template, those with the highest priority first. A new node
// runs the ones that it admits before any pending pod: its device plugin is one of them.
func (c *cluster) daemons() (out []plan.Pod) {
	read := map[string]int{}
	for _, o := range c.foreign.Sorted(foreign.DaemonSet) {
		if o.Maker == nil || o.Maker.Over {
			continue
		}
		if read[o.Namespace]++; read[o.Namespace] > maxDaemonSets {
			c.over.add(o.Namespace, LimitDaemonSets, 1)
			continue
		}
		p, object := c.template(o.Namespace, &o.Maker.Roles[0].Template)
		p.Groups = c.rules.in(o.Namespace, object.Labels)
		if c.ledger.Refuse([]gangs.Pod{{Pod: object, Plan: &p}}, nil)[0] != "" {
			continue // a tenant without quota takes nothing from others
		}
		p.Owner, p.DaemonSet = o.Kind.Owner()+"/"+o.Name, true
		if c.constrain(&p); p.Unreadable == "" {
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b plan.Pod) int { return cmp.Compare(b.Priority, a.Priority) })
	return out
}

// daemonOf identifies the pods of one DaemonSet, by their owner. A static pod that several nodes have is identified by
// its name without the node's name.
func daemonOf(p *plan.Pod) string {
	if ofDaemonSet(p) {
		return p.Namespace + "/" + p.Owner
	}
	return p.Namespace + "/" + strings.TrimSuffix(p.Name, "-"+p.Node)
}

func ofDaemonSet(p *plan.Pod) bool { return strings.HasPrefix(p.Owner, "DaemonSet/") }

// daemonsOn returns the pods of DaemonSets and the static pods that a node has, and those that it will have. It leaves
// out a pod that does not fit beside the others.
func daemonsOn(n *plan.Node, has []*plan.Pod, daemons []plan.Pod) map[string]*plan.Pod {
	out := make(map[string]*plan.Pod, len(daemons))
	cpu, memory := cmp.Or(n.CPUMilli, math.MaxInt64), cmp.Or(n.MemoryMi, math.MaxInt64) // unstated
	add := func(p *plan.Pod) {
		out[daemonOf(p)] = p
		cpu, memory = cpu-p.CPUMilli, memory-p.MemoryMi
	}
	for _, p := range has {
		if p.DaemonSet {
			add(p)
		}
	}
	for i := range daemons {
		p := &daemons[i]
		lacks := func(r plan.Resource) bool { return r.Amount > amountOf(n.Others, r.Name) && !ofKubelets(r.Name) }
		if out[daemonOf(p)] == nil && p.CPUMilli <= cpu && p.MemoryMi <= memory && p.Demand.GPUs <= len(n.GPUs) && !slices.ContainsFunc(p.Others, lacks) && plan.Admits(*p, n.Name, n.Labels, n.Taints) {
			add(p)
		}
	}
	return out
}

// onNewNode returns the pods of DaemonSets and the static pods that a new node has: those on more than half of the
// ready nodes. Without ready nodes these are the pods that the last ready nodes had, except those of DaemonSets that no
// longer exist, and those that the template admits.
func (l *learner) onNewNode(t *plan.Template, bound map[string][]*plan.Pod, all []plan.Pod) map[string]*plan.Pod {
	if len(l.nodes) == 0 {
		exist, has := map[string]*plan.Pod{}, []*plan.Pod(nil)
		for i := range all {
			exist[daemonOf(&all[i])] = &all[i]
		}
		for i := range l.had {
			p := &l.had[i]
			if now := exist[daemonOf(p)]; now != nil {
				p.Groups = now.Groups // the groups that rules name change
			} else if ofDaemonSet(p) {
				continue
			}
			has = append(has, p)
		}
		return daemonsOn(&plan.Node{CPUMilli: t.CPUMilli, MemoryMi: t.MemoryMi, GPUs: t.GPUs, Others: t.Others, Labels: t.Labels, Taints: t.Taints}, has, all)
	}
	on, out := map[string]int{}, map[string]*plan.Pod{}
	for _, n := range l.nodes {
		for key, p := range daemonsOn(n, bound[n.Name], all) {
			on[key]++
			out[key] = p
		}
	}
	maps.DeleteFunc(out, func(key string, _ *plan.Pod) bool { return 2*on[key] <= len(l.nodes) })
	l.had = l.had[:0]
	for _, key := range slices.Sorted(maps.Keys(out)) {
		l.had = append(l.had, *out[key])
	}
	return out
}

// take subtracts from a template what pods of DaemonSets and static pods use of a new node.
func take(t *plan.Template, daemons map[string]*plan.Pod, tables mig.Tables) {
	off := func(stated *int64, has int64) {
		if *stated > 0 { // 0 is unstated
			*stated = max(1, *stated-has)
		}
	}
	t.HostPorts, t.Groups = nil, nil
	t.Others = slices.Clone(t.Others)
	for i := range t.GPUs {
		t.GPUs[i].Instances = slices.Clone(t.GPUs[i].Instances)
	}
	for _, key := range slices.Sorted(maps.Keys(daemons)) {
		p := daemons[key]
		off(&t.CPUMilli, p.CPUMilli)
		off(&t.MemoryMi, p.MemoryMi)
		t.HostPorts, t.Groups = append(t.HostPorts, p.HostPorts...), append(t.Groups, p.Groups...)
		allocateNew(t.GPUs, key, &p.Demand, tables)
		for _, r := range append(slices.Clip(p.Others), plan.Resource{Name: string(corev1.ResourcePods), Amount: 1}) {
			if at := slices.IndexFunc(t.Others, func(of plan.Resource) bool { return of.Name == r.Name }); at >= 0 {
				t.Others[at].Amount = max(0, t.Others[at].Amount-r.Amount)
			}
		}
	}
	t.HostPorts = sortedPorts(t.HostPorts)
	slices.Sort(t.Groups)
	t.Groups = slices.Compact(t.Groups)
}

// allocateNew allocates GPUs and MIG devices of a new node to a pod of a DaemonSet, if there are enough.
func allocateNew(gpus []plan.GPU, pod string, d *demand.Demand, tables mig.Tables) {
	var whole []*plan.GPU
	for i := range gpus {
		if c := &gpus[i]; !c.MIG && !c.Shared && c.AllocatedTo == nil {
			whole = append(whole, c)
		}
	}
	var instances []*plan.Instance
	enough := len(whole) >= d.GPUs
	for _, in := range d.MIG {
		n := len(instances) + in.Count
		for i := range gpus {
			table, ok := tables.ForModel(gpus[i].Model.Name)
			for k := range gpus[i].Instances {
				if one := &gpus[i].Instances[k]; ok && len(instances) < n && one.AllocatedTo == "" && slices.Contains(table.Names(one.Profile), in.Name) {
					instances = append(instances, one)
				}
			}
		}
		enough = enough && len(instances) == n
	}
	if !enough {
		return
	}
	for _, c := range whole[:d.GPUs] {
		c.AllocatedTo = []string{pod}
	}
	for _, one := range instances {
		one.AllocatedTo = pod
	}
}
