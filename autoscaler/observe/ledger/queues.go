package ledger

import (
	"strings"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// Prefixes of the tenants of queues.
const (
	clusterQueuePrefix = "kueue/"
	cohortPrefix       = "kueue/cohort/"
	volcanoPrefix      = "volcano/"
	kaiPrefix          = "kai/"
)

// Labels by which pods name their queue.
const (
	volcanoQueueKey  = "scheduling.volcano.sh/queue-name"
	volcanoScheduler = "volcano"
	volcanoRoot      = "root"
	kaiQueueKey      = "kai.scheduler/queue"
	kaiQueueOldKey   = "runai/queue"
)

// sums are a queue's quotas in slices, over all its GPU resources.
type sums struct {
	any                            bool
	guarantee, limit, borrow, lend quota.Amount
}

// sum adds quotas up. An unset quantity is unbounded, and so is its sum.
func (u units) sum(quotas []foreign.Quota) (s sums) {
	for _, q := range quotas {
		one, ok := u.perUnit(q.Resource)
		if !ok {
			continue
		}
		s.any = true
		s.guarantee = s.guarantee.Add(times(one, q.Guaranteed, quota.Amount{}))
		s.limit = s.limit.Add(times(one, q.Limit, quota.All()))
		s.borrow = s.borrow.Add(times(one, q.Borrow, quota.All()))
		s.lend = s.lend.Add(times(one, q.Lend, quota.All()))
	}
	return s
}

// addKueue adds a tenant for each ClusterQueue and Cohort. A Cohort exists as soon as an object
// refers to it.
func (l *Ledger) addKueue() {
	var named []string
	for _, of := range []struct {
		kind         foreign.Kind
		word, prefix string
	}{{foreign.KueueCohort, "Cohort ", cohortPrefix}, {foreign.KueueClusterQueue, "ClusterQueue ", clusterQueuePrefix}} {
		for _, o := range l.objects.Sorted(of.kind) {
			if o.Queue == nil {
				l.problem(string(of.kind)+" "+o.Name, "%w", o.Err)
				continue
			}
			s := l.units.sum(o.Queue.Quotas)
			e := queueEntry(of.word+o.Name, of.prefix+o.Name, s)
			if o.Queue.Parent != "" {
				named = append(named, o.Queue.Parent)
				e.Parent = cohortPrefix + o.Queue.Parent
			}
			// A ClusterQueue that bounds no GPU resource by the name that pods request: Kueue admits none through
			// it, or Kueue's own configuration gives the resource another name.
			if s.any || of.kind == foreign.KueueCohort {
				l.tenants = append(l.tenants, e)
			}
		}
	}
	for _, name := range named { // the first of a name holds
		l.tenants = append(l.tenants, queueEntry("Cohort "+name, cohortPrefix+name, sums{borrow: quota.All(), lend: quota.All()}))
	}
}

// queueEntry has no limit of its own in Kueue: the borrowing limit is the bound.
func queueEntry(of, name string, s sums) entry {
	return entry{of: of, Tenant: plan.Tenant{Tenant: quota.Tenant{
		Name: name, Guarantee: s.guarantee, Limit: quota.All(), Borrow: s.borrow, Lend: s.lend,
	}}}
}

// addQueues adds a tenant for each queue of Volcano or KAI that bounds GPUs, or has one under it
// that does. One that cannot be read may use nothing more.
func (l *Ledger) addQueues(k foreign.Kind, prefix string) {
	parents, bounds := map[string]string{}, map[string]bool{}
	for _, o := range l.objects[k] {
		switch {
		case o.Err != nil:
			l.problem(string(k)+" "+o.Name, "%w: nothing more is added for its pods until this is fixed", o.Err)
			l.tenants = append(l.tenants, entry{of: string(k) + " " + o.Name, whole: true, Tenant: plan.Tenant{Tenant: quota.Tenant{Name: prefix + o.Name}}})
		case o.Queue != nil:
			parents[o.Name] = o.Queue.Parent
			bounds[o.Name] = l.units.sum(o.Queue.Quotas).any
		}
	}
	if k == foreign.VolcanoQueue { // every queue is under the root, whether it names a parent or not
		for name, parent := range parents {
			if parent == "" && name != volcanoRoot {
				parents[name] = volcanoRoot
			}
		}
		if _, ok := parents[volcanoRoot]; !ok && len(parents) > 0 {
			l.tenants = append(l.tenants, entry{of: "Queue " + volcanoRoot, Tenant: plan.Tenant{Tenant: quota.Tenant{
				Name: prefix + volcanoRoot, Limit: quota.All(), Borrow: quota.All(), Lend: quota.All(),
			}}})
		}
	}
	hasChildren := map[string]bool{}
	for _, parent := range parents {
		hasChildren[parent] = true
	}
	for _, o := range l.objects.Sorted(k) {
		if o.Queue == nil || !bounds[o.Name] && !hasChildren[o.Name] {
			continue
		}
		s := l.units.sum(o.Queue.Quotas)
		e := entry{of: "Queue " + o.Name, whole: true, Tenant: plan.Tenant{Tenant: quota.Tenant{
			Name: prefix + o.Name, Guarantee: s.guarantee, Limit: s.limit, Borrow: quota.All(), Lend: s.lend,
		}}}
		if !s.any {
			e.Limit, e.Lend = quota.All(), quota.All()
		}
		if p := parents[o.Name]; p != "" {
			e.Parent = prefix + p
		}
		l.tenants = append(l.tenants, e)
	}
}

// ofKueue returns the ClusterQueue that has admitted the claim's Workload, else the one that its
// LocalQueue points to.
func (l *Ledger) ofKueue(c Claim) string {
	queue := c.Labels[foreign.KueueQueueLabel]
	if w := l.objects.Get(foreign.KueueWorkload.Of(c.Namespace, c.Workload)); w != nil && w.Maker != nil {
		if w.Maker.ClusterQueue != "" {
			return clusterQueuePrefix + w.Maker.ClusterQueue
		}
		queue = w.Maker.Queue
	}
	o := l.objects.Get(foreign.KueueLocalQueue.Of(c.Namespace, queue))
	if o == nil || o.Queue == nil {
		return ""
	}
	return clusterQueuePrefix + o.Queue.ClusterQueue
}

func (l *Ledger) ofVolcano(c Claim) string {
	if o := l.objects.Get(foreign.VolcanoPodGroup.Of(c.Namespace, c.PodGroup)); o != nil && o.Group != nil {
		return volcanoPrefix + o.Group.Queue
	}
	for _, from := range []map[string]string{c.Annotations, c.Labels} {
		if name := from[volcanoQueueKey]; name != "" {
			return volcanoPrefix + name
		}
	}
	if c.Spec.SchedulerName == volcanoScheduler {
		return volcanoPrefix + "default"
	}
	return ""
}

func (l *Ledger) ofKAI(c Claim) string {
	for _, key := range []string{kaiQueueKey, kaiQueueOldKey} {
		if name := c.Labels[key]; name != "" {
			return kaiPrefix + name
		}
	}
	if o := l.objects.Get(foreign.KAIPodGroup.Of(c.Namespace, c.PodGroup)); o != nil && o.Group != nil && o.Group.Queue != "" {
		return kaiPrefix + o.Group.Queue
	}
	return ""
}

// plainName removes "requests." from the name of a resource in a quota.
func plainName(name string) string { return strings.TrimPrefix(name, "requests.") }
