package plan

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// addTenants builds the quota tree and charges what runs and is not leaving,
// allowed or not. An invalid tree counts as none; Snapshot.Check reports what is
// wrong with it.
func (w *world) addTenants(tenants []Tenant) {
	w.tenants, w.scale = slices.Clone(tenants), NewScale(w.models.tables, w.models.seen)
	slices.SortStableFunc(w.tenants, func(a, b Tenant) int { return strings.Compare(a.Name, b.Name) })
	if len(w.tenants) == 0 {
		return
	}
	plain := make([]quota.Tenant, len(w.tenants))
	for i := range w.tenants {
		plain[i] = w.tenants[i].Tenant
	}
	var err error
	if w.tree, err = quota.NewTree(plain); err != nil {
		w.tenants = nil
		return
	}
	used := make([]quota.Amount, len(w.tenants))
	for _, r := range w.running {
		if t := w.tenantIndex(r.pod); t >= 0 && !r.pod.Leaving {
			used[t] = used[t].Add(w.amountOf(r.pod))
		}
	}
	for i, a := range used {
		w.tree = w.tree.Force(w.tenants[i].Name, a)
	}
	w.ran = w.tree
}

// tenantIndex is the pod's tenant, -1 where it is under no quota.
func (w *world) tenantIndex(p *Pod) int {
	if p.Tenant == "" {
		return -1
	}
	i, ok := sort.Find(len(w.tenants), func(i int) int { return strings.Compare(p.Tenant, w.tenants[i].Name) })
	if !ok {
		return -1
	}
	return i
}

// amountOf is the amount of a pod's demand: on the GPUs of its node, or, while
// pending, of the cluster.
func (w *world) amountOf(p *Pod) quota.Amount {
	memory := 0
	if p.Demand.Fraction != nil {
		if i := w.nodeIndex(p.Node); i >= 0 {
			memory = w.nodes[i].gpuMiB
		}
	}
	return w.scale.Amount(&p.Demand, memory)
}

// charge charges a pending pod to its tenant's quota; false where the quota
// does not admit it. It admits demand within the tenant's guarantee even while
// others have borrowed that, and beyond it what others lend and do not use.
func (w *world) charge(p *pending) bool {
	t := w.tenantIndex(p.pod)
	if t < 0 || p.charged {
		return true
	}
	tenant := &w.tenants[t]
	a := w.amountOf(p.pod)
	if full, _ := w.tree.Full(tenant.Name, a); full != "" {
		return w.refuse(p, t, a)
	}
	if w.tree.Used(tenant.Name).Add(a).Fits(tenant.Guarantee) {
		w.tree, p.charged, p.borrowed = w.tree.Force(tenant.Name, a), true, false
		return true
	}
	tree, err := w.tree.Add(tenant.Name, a)
	if err != nil {
		return w.refuse(p, t, a)
	}
	w.tree, p.charged, p.borrowed = tree, true, true
	return true
}

func (w *world) refuse(p *pending, tenant int, a quota.Amount) bool {
	t := &w.tenants[tenant]
	p.refused, p.reason = true, QuotaExceeded
	p.detail = fmt.Sprintf("%s %s/%s GPU guaranteed, %s available, limit %s; requests %s more",
		t.Name, gpuText(w.tree.Used(t.Name)), gpuText(t.Guarantee), availableText(w.tree.Available(t.Name)), gpuText(t.Limit), gpuText(a))
	if above, limit := w.tree.Full(t.Name, a); above != "" && above != t.Name {
		p.detail += fmt.Sprintf("; %s above it %s/%s GPU of its limit", above, gpuText(w.tree.Total(above)), gpuText(limit))
	}
	return false
}

// readmit charges refused pods again once pods admitted before them turn out to
// be unservable: those must not keep the quota used up.
func (w *world) readmit() {
	freed := false // for the tenant's own pods, and those that share a limit or borrow
	for i := range w.pending {
		p := &w.pending[i]
		if why := w.whyUnserved(p); p.charged && (why == NoPoolFits || why == RepartitionExhausted) {
			w.discharge(p)
			freed = true
		}
	}
	for u := 0; freed && u < len(w.units); u++ {
		core, _ := w.units[u].core()
		if len(core) > 0 && w.pending[core[0]].reason == QuotaExceeded && w.try(func() bool { return w.chargeAgain(core, false) }) {
			w.serveGang(&w.units[u])
		}
		_, rest := w.units[u].core()
		for _, i := range rest {
			p := &w.pending[i]
			if !p.refused || p.reason != QuotaExceeded || w.gangUnserved(&w.units[u]) {
				continue
			}
			if w.try(func() bool { return w.chargeAgain([]int{i}, false) }) && p.pod.Unschedulable { // the others come last
				w.serve(i, false)
			}
		}
	}
}

// whyUnserved is the reason of a pod, or of the member that keeps its gang unserved.
func (w *world) whyUnserved(p *pending) Reason {
	if p.reason == GangWaits {
		return w.gangNamed(p.pod.Gang).lacks
	}
	return p.reason
}

// chargeAgain charges refused pods; with reclaim, what keeps them out is evicted first. Precondition: a trial.
func (w *world) chargeAgain(refused []int, reclaim bool) bool {
	return !slices.ContainsFunc(refused, func(i int) bool {
		p := w.touchPending(i)
		p.refused, p.reason, p.detail = false, "", ""
		return reclaim && !w.reclaimLimit(p) || !w.chargeReadable(i)
	})
}

// discharge removes a pod's charge, if it has one.
func (w *world) discharge(p *pending) {
	p.charged = false
	w.tree = w.released(w.tree, p.pod)
}

// gpuText is an amount in GPUs: "8", "0.43"; "∞" for no bound. It is the larger
// of compute and memory.
func gpuText(a quota.Amount) string {
	if a.Compute == quota.Unlimited && a.Memory == quota.Unlimited {
		return "∞"
	}
	return twoPlaces(max(inGPUs(a.Compute, gpuSlices), inGPUs(a.Memory, gpuMemorySlices)))
}

// availableText is the smaller of compute and memory: one without the other is
// of no use.
func availableText(a quota.Amount) string {
	if a.Compute == quota.Unlimited || a.Memory == quota.Unlimited {
		return gpuText(a)
	}
	return twoPlaces(min(inGPUs(a.Compute, gpuSlices), inGPUs(a.Memory, gpuMemorySlices)))
}

func inGPUs(n int64, ofGPU float64) float64 {
	if n == quota.Unlimited {
		return 0
	}
	return float64(n) / ofGPU
}

func twoPlaces(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// amountText is "2 GPUs", "0.43 GPUs" or, where compute and memory are not in
// a GPU's proportion, "3+4 slices"; "∞" for no bound.
func amountText(a quota.Amount) string {
	switch {
	case a.Compute == quota.Unlimited && a.Memory == quota.Unlimited:
		return "∞"
	case a.Zero():
		return "nothing"
	case a.Compute%gpuSlices == 0 && a.Memory%gpuMemorySlices == 0 && a.Compute/gpuSlices == a.Memory/gpuMemorySlices:
		return count(int(a.Compute/gpuSlices), "GPU")
	}
	text := func(n int64) string {
		if n == quota.Unlimited {
			return "∞"
		}
		return fmt.Sprint(n)
	}
	return text(a.Compute) + "+" + text(a.Memory) + " slices"
}
