package ledger

import (
	"cmp"
	"slices"
	"strings"

	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/observe/gangs"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// Prefixes of the tenants of queues.
const (
	clusterQueuePrefix = "kueue/"
	cohortPrefix       = "kueue/cohort/"
	volcanoPrefix      = "volcano/"
	// volcanoDefault is the queue of pods that state none. Volcano's scheduler creates it, under a name that its flag may
	// change (ed72c7c, pkg/scheduler/cache).
	volcanoDefault = volcanoPrefix + "default"
	kaiPrefix      = "kai/"
)

// Labels by which pods name their queue.
const (
	volcanoQueueKey  = "scheduling.volcano.sh/queue-name"
	volcanoScheduler = "volcano"
	volcanoRoot      = "root"
	kaiQueueKey      = "kai.scheduler/queue"
	kaiQueueOldKey   = "runai/queue"
)

// ofQuotas is a queue's tenant: the sum of its quotas over all GPU resources, in slices. A quantity that is not set is
// unbounded. Without a quota of a GPU resource the tenant has no bounds.
func (u units) ofQuotas(name string, quotas []foreign.Quota) (t quota.Tenant, bounds bool) {
	t.Name = name
	for _, q := range quotas {
		one, ok := u.perUnit(q.Resource)
		if !ok {
			continue
		}
		bounds = true
		t.Guarantee = t.Guarantee.Add(times(one, q.Guaranteed, quota.Amount{}))
		t.Limit = t.Limit.Add(times(one, q.Limit, quota.All()))
		t.Borrow = t.Borrow.Add(times(one, q.Borrow, quota.All()))
		t.Lend = t.Lend.Add(times(one, q.Lend, quota.All()))
	}
	if !bounds {
		t = unbounded(name)
	}
	return t, bounds
}

// addQueues adds a tenant for each queue and cohort that bounds GPUs under resource names that pods request, or that is
// the parent of one. A cohort exists as soon as an object refers to it. So does Volcano's root, the parent of every
// queue. Pods of a queue of Volcano or KAI that cannot be read get nothing more. Those of an unreadable queue of Kueue
// do: Kueue admits them.
func (l *Ledger) addQueues() {
	parents, bounded := map[string]bool{}, map[string]bool{}
	var implied []entry
	for _, of := range []struct {
		kind                 foreign.Kind
		word, prefix, parent string
	}{
		{foreign.KueueClusterQueue, "ClusterQueue ", clusterQueuePrefix, cohortPrefix}, {foreign.KueueCohort, "Cohort ", cohortPrefix, cohortPrefix},
		{foreign.VolcanoQueue, "Queue ", volcanoPrefix, volcanoPrefix}, {foreign.KAIQueue, "Queue ", kaiPrefix, kaiPrefix},
	} {
		kueue := of.parent == cohortPrefix
		for _, o := range l.objects.Sorted(of.kind) {
			name, object := of.prefix+o.Name, string(of.kind)+" "+o.Name
			switch {
			case o.Err != nil && kueue:
				l.problem(object, "%w", o.Err)
				continue
			case o.Err != nil:
				l.problem(object, "%w: nothing more is added for its pods until this is fixed", o.Err)
				l.add(object, quota.Tenant{Name: name}, true)
				continue
			}
			var t quota.Tenant
			t, bounded[name] = l.units.ofQuotas(name, o.Queue.Quotas)
			parent := o.Queue.Parent
			if of.kind == foreign.VolcanoQueue && o.Name != volcanoRoot {
				parent = cmp.Or(parent, volcanoRoot)
			}
			if parent != "" {
				t.Parent = of.parent + parent
				parents[t.Parent] = true
			}
			l.add(of.word+o.Name, t, !kueue)
			l.entries[len(l.entries)-1].weighs = of.kind == foreign.KAIQueue
			if kueue && parent != "" || t.Parent == volcanoPrefix+volcanoRoot {
				implied = append(implied, entry{Tenant: plan.Tenant{Tenant: unbounded(t.Parent)}})
			}
		}
	}
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool {
		bounds, isQueue := bounded[e.Name]
		return isQueue && !bounds && !parents[e.Name]
	})
	l.entries = append(l.entries, implied...)
	for _, s := range starters {
		for _, o := range l.objects[s.group] {
			if name := l.held(s, o); name != "" {
				l.add(string(o.Kind)+" "+o.Namespace+"/"+o.Name, quota.Tenant{Name: name}, false)
			}
		}
	}
}

// ofKueue returns the ClusterQueue that has admitted the pod's Workload, else the one that its LocalQueue points to.
// It returns none where the pod requests GPUs by a resource of which the queue has no quota: Kueue counts these under
// another name, or not at all.
func (l *Ledger) ofKueue(p *gangs.Pod) string {
	of := foreign.KueueClusterQueue.Of("", l.clusterQueue(p))
	o := l.objects.Get(of)
	if o == nil || o.Queue == nil {
		return ""
	}
	for name := range resourcehelper.PodRequests(p.Pod, resourcehelper.PodResourcesOptions{}) {
		_, isGPU := l.units.perUnit(string(name))
		if isGPU && !slices.ContainsFunc(o.Queue.Quotas, func(q foreign.Quota) bool { return q.Resource == string(name) }) {
			return ""
		}
	}
	return clusterQueuePrefix + of.Name
}

func (l *Ledger) clusterQueue(p *gangs.Pod) string {
	queue := p.Labels[foreign.KueueQueueLabel]
	if w := l.objects.Maker(foreign.KueueWorkload.Of(p.Namespace, p.Workload)); w != nil {
		if w.Maker.ClusterQueue != "" {
			return w.Maker.ClusterQueue
		}
		queue = w.Maker.Queue
	}
	if o := l.objects.Get(foreign.KueueLocalQueue.Of(p.Namespace, queue)); o != nil && o.Queue != nil {
		return o.Queue.ClusterQueue
	}
	return ""
}

func (l *Ledger) ofVolcano(p *gangs.Pod) string {
	if o := l.objects.Group(foreign.VolcanoPodGroup.Of(p.Namespace, p.PodGroup)); o != nil {
		return volcanoPrefix + o.Group.Queue
	}
	for _, from := range []map[string]string{p.Annotations, p.Labels} {
		if name := from[volcanoQueueKey]; name != "" {
			return volcanoPrefix + name
		}
	}
	if p.Spec.SchedulerName == volcanoScheduler {
		return volcanoDefault
	}
	return ""
}

// ofKAI returns the queue of the pod's PodGroup, else the one that the pod's label names. For the PodGroup, KAI's
// pod-grouper prefers the label of the pod's topmost owner to the pod's own.
func (l *Ledger) ofKAI(p *gangs.Pod) string {
	if o := l.objects.Group(foreign.KAIPodGroup.Of(p.Namespace, p.PodGroup)); o != nil && o.Group.Queue != "" {
		return kaiPrefix + o.Group.Queue
	}
	if name := cmp.Or(p.Labels[kaiQueueKey], p.Labels[kaiQueueOldKey]); name != "" {
		return kaiPrefix + name
	}
	return ""
}

// starter is a scheduler that may start no pod of a PodGroup, whatever nodes there are.
type starter struct {
	group, queue foreign.Kind
	prefix       string // of its queues' tenants
}

var starters = []starter{{foreign.KAIPodGroup, foreign.KAIQueue, kaiPrefix}, {foreign.VolcanoPodGroup, foreign.VolcanoQueue, volcanoPrefix}}

// heldBack returns a tenant without capacity for a pending pod that its scheduler starts on no node; empty for other pods.
func (l *Ledger) heldBack(p *gangs.Pod) (name string) {
	for _, s := range starters {
		if o := l.objects.Group(s.group.Of(p.Namespace, p.PodGroup)); o != nil && p.Spec.NodeName == "" {
			name = cmp.Or(name, l.held(s, o))
		}
	}
	return name
}

// held names the tenant of the pods of a PodGroup that its scheduler holds back: by KAI's own reason, since Volcano's
// queue is closed, or since the PodGroup's queue does not exist while others do. It is empty for other PodGroups.
func (l *Ledger) held(by starter, o *foreign.Object) string {
	if o.Group == nil {
		return ""
	}
	name, why := by.prefix+o.Group.Queue, o.Group.Held
	all := l.objects[by.queue]
	switch queue := all[by.queue.Of("", o.Group.Queue)]; {
	case queue != nil && queue.Queue != nil:
		why = cmp.Or(why, queue.Queue.Closed)
	case queue == nil && len(all) > 0 && name != volcanoDefault:
		why = "QueueDoesNotExist"
	}
	if why == "" {
		return ""
	}
	return name + "/" + why
}

// plainName removes "requests." from the name of a resource in a quota.
func plainName(name string) string { return strings.TrimPrefix(name, "requests.") }
