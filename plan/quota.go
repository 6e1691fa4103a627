package plan

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// quotas are the tenants, and what each of them uses: with its running pods, and with the
// pending ones that the plan has admitted. Only charge, discharge, evict and provide change that,
// and the revert of a trial.
type quotas struct {
	fleet   *fleet
	tenants []Tenant   // by name
	tree    quota.Tree // what the tenants use
	ran     quota.Tree // tree before any pending pod was charged
	scale   *Scale
	lends   bool   // pods beyond their tenant's guarantee are charged too; set by admit
	borrows []bool // by tenant: one of its pods would borrow, so less urgent ones are charged only with lends
}

// newQuotas builds the quota tree and charges what runs, allowed or not. An invalid tree
// counts as none; Snapshot.Check reports what is wrong with it.
func newQuotas(f *fleet, tenants []Tenant, running []placedPod, scale *Scale, now time.Time) quotas {
	q := quotas{fleet: f, tenants: slices.Clone(tenants), scale: scale}
	slices.SortStableFunc(q.tenants, func(a, b Tenant) int { return strings.Compare(a.Name, b.Name) })
	if len(q.tenants) == 0 {
		return q
	}
	plain := make([]quota.Tenant, len(q.tenants))
	for i := range q.tenants {
		plain[i] = q.tenants[i].Tenant
	}
	var err error
	if q.tree, err = quota.NewTree(plain); err != nil {
		q.tenants, q.tree = nil, quota.Tree{}
		return q
	}
	q.borrows = make([]bool, len(q.tenants))
	used := make([]quota.Amount, len(q.tenants))
	for _, r := range running {
		if t := q.tenantIndex(r.pod); t >= 0 && r.pod.Charged(now) {
			used[t] = used[t].Add(q.amountOf(r.pod))
		}
	}
	for i, a := range used {
		q.tree = q.tree.Force(q.tenants[i].Name, a)
	}
	q.ran = q.tree
	return q
}

// tenantIndex is the pod's tenant, -1 where it is under no quota.
func (q *quotas) tenantIndex(p *Pod) int {
	if p.Tenant == "" {
		return -1
	}
	i, ok := sort.Find(len(q.tenants), func(i int) int { return strings.Compare(p.Tenant, q.tenants[i].Name) })
	if !ok {
		return -1
	}
	return i
}

// amountOf is the amount of a pod's demand: on the GPUs of its node, or, while
// pending, of the cluster.
func (q *quotas) amountOf(p *Pod) quota.Amount {
	memory := 0
	if p.Demand.Fraction != nil {
		if i := q.fleet.nodeIndex(p.Node); i >= 0 {
			memory = q.fleet.nodes[i].gpuMiB
		}
	}
	return q.scale.Amount(&p.Demand, memory)
}

// charge charges a pending pod to its tenant's quota; false where the quota does not admit
// it. Demand within the tenant's guarantee is admitted even while others have borrowed it.
// Demand beyond that is admitted from what others lend and do not use. Before anything is
// lent, no pod of a tenant overtakes a more urgent one that would borrow.
func (q *quotas) charge(p *pending) bool {
	t := q.tenantIndex(p.pod)
	if t < 0 || p.charged {
		return true
	}
	tenant := &q.tenants[t]
	a := q.amountOf(p.pod)
	if full, _ := q.tree.Full(tenant.Name, a); full != "" {
		return q.refuse(p, t, a)
	}
	guaranteed := q.tree.Used(tenant.Name).Add(a).Fits(tenant.Guarantee)
	if q.borrows[t] = q.borrows[t] || !guaranteed; q.borrows[t] && !q.lends {
		return false
	}
	tree, available := q.tree.Add(tenant.Name, a)
	if guaranteed {
		tree = q.tree.Force(tenant.Name, a)
	} else if !available {
		return q.refuse(p, t, a)
	}
	q.tree, p.charged, p.borrowed, p.shared = tree, true, !guaranteed, tree.Covered(tenant.Name)
	return true
}

func (q *quotas) refuse(p *pending, tenant int, a quota.Amount) bool {
	t := &q.tenants[tenant]
	p.refused, p.reason = true, QuotaExceeded
	p.detail = fmt.Sprintf("%s uses %s (guarantee %s, limit %s) and requests %s more; available: %s",
		t.Name, q.tree.Used(t.Name), t.Guarantee, t.Limit, a, q.tree.Available(t.Name))
	if above, limit := q.tree.Full(t.Name, a); above != "" && above != t.Name {
		p.detail += fmt.Sprintf("; %s above it uses %s of its limit %s", above, q.tree.Total(above), limit)
	}
	return false
}

// readmit charges refused pods again once pods admitted before them turn out to be unservable, or to wait for capacity
// to borrow: those must not keep the quota used up.
func (w *world) readmit() {
	freed := false // for the tenant's own pods, and those that share a limit or borrow
	for i := range w.pending {
		p := &w.pending[i]
		why := p.reason
		if why == GangWaits { // the reason of the member that keeps the gang unserved
			why = w.evictions.gangNamed(p.pod.Gang).lacks
		}
		if p.charged && (why == NoPoolFits || why == RepartitionExhausted || why == BorrowedWaits) {
			w.quotas.discharge(p)
			freed = true
		}
	}
	if !freed {
		return
	}
	for _, g := range w.queue.gangs {
		core, _ := g.core()
		if len(core) > 0 && w.pending[core[0]].reason == QuotaExceeded && w.try(func() bool { return w.chargeAgain(core, false) }) {
			w.serveGang(g)
		}
		_, rest := g.core()
		for _, i := range rest {
			p := &w.pending[i]
			if !p.refused || p.reason != QuotaExceeded {
				continue
			}
			if w.gangUnserved(g) { // perhaps for another reason by now
				p.reason, p.detail = g.reason, g.name+" "+g.detail
				continue
			}
			if w.chargeAgain([]int{i}, false) && p.pod.Unschedulable { // the others come last
				w.serve(i, false)
			}
		}
	}
}

// chargeAgain charges pods that were refused. With reclaim it first evicts other pods until no limit refuses these.
// Precondition with reclaim, or for several pods: a trial.
func (w *world) chargeAgain(refused []int, reclaim bool) bool {
	return !slices.ContainsFunc(refused, func(i int) bool {
		p := w.touchPending(i)
		p.refused, p.reason, p.detail = false, "", ""
		return reclaim && !w.reclaimLimit(p) || !w.chargeReadable(i)
	})
}

// discharge removes a pod's charge, if it has one.
func (q *quotas) discharge(p *pending) {
	p.charged = false
	q.tree = q.released(q.tree, p.pod)
}

// used is what tenants use: with running pods, and with pending ones that are served.
func (q *quotas) used(pods []pending) quota.Tree {
	tree := q.tree
	for i := range pods {
		if p := &pods[i]; p.charged && !p.served {
			tree = q.released(tree, p.pod)
		}
	}
	return tree
}

// idleEnough reports a pod idle for as long as its tenant allows.
func (q *quotas) idleEnough(p *Pod, idle time.Duration) bool {
	t := q.tenantIndex(p)
	return t >= 0 && q.tenants[t].ReclaimIdle > 0 && idle >= q.tenants[t].ReclaimIdle
}

// guaranteed reports whether one more such pod is within its tenant's guarantee, or is under
// no quota. No capacity is prepared beyond it, since it may be reclaimed.
func (q *quotas) guaranteed(p *Pod) bool {
	t := q.tenantIndex(p)
	return t < 0 || q.tree.Used(p.Tenant).Add(q.amountOf(p)).Fits(q.tenants[t].Guarantee)
}

// limitAbove names the tenant, from the pod's to the root, whose limit one more such
// pod would exceed; empty for none.
func (q *quotas) limitAbove(p *Pod) string {
	full, _ := q.tree.Full(p.Tenant, q.amountOf(p))
	return full
}

// released is a quota tree without what a pod uses.
func (q *quotas) released(tree quota.Tree, p *Pod) quota.Tree {
	less, _ := tree.Remove(p.Tenant, q.amountOf(p)) // the same tree where it is under no quota
	return less
}

// without is the quota tree after some evictions.
func (q *quotas) without(gone []placedPod) quota.Tree {
	tree := q.tree
	for _, v := range gone {
		tree = q.released(tree, v.pod)
	}
	return tree
}
