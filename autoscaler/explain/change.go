package explain

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

// maxTries bounds the single changes that are tried; each takes a plan.
const maxTries = 16

// maxPairs bounds the pairs of changes that are tried if no single one helps.
const maxPairs = 30

// largeSnapshot is the number of pods and nodes above which pairs are not tried, since a
// plan takes too long.
const largeSnapshot = 20000

// poolLabel is the label of a pool's nodes.
const poolLabel = "gpuscale.io/pool"

// Who can make a change.
const (
	podOwner = "pod owner"
	platform = "platform"
)

// candidate is a change to try. apply may write to everything that copyOf copies.
type candidate struct {
	who, what string
	apply     func(w *world)
}

// world is a copy of a snapshot and a policy for candidates to change.
type world struct {
	plan.Snapshot
	policy plan.Policy
	served []int // indices of the pods that the change is for: the pod, or its gang
}

func copyOf(s plan.Snapshot, p plan.Policy, e plan.Explanation) *world {
	w := &world{Snapshot: s, policy: p}
	w.Pools, w.Pods, w.Tenants = slices.Clone(s.Pools), slices.Clone(s.Pods), slices.Clone(s.Tenants)
	for i := range w.Pods {
		q := &w.Pods[i]
		if q.Key() == e.Pod.Key() || e.Pod.Gang != "" && q.Gang == e.Pod.Gang {
			w.served = append(w.served, i)
		}
	}
	return w
}

func (w *world) pool(name string) *plan.Pool {
	return &w.Pools[slices.IndexFunc(w.Pools, func(p plan.Pool) bool { return p.Name == name })]
}

// each changes the pods that the change is for.
func (w *world) each(change func(q *plan.Pod)) {
	for _, i := range w.served {
		change(&w.Pods[i])
	}
}

// serves are the verdicts of a pod that will run without a change.
var serves = []plan.Reason{plan.WaitScheduler, plan.WaitUpcomingNode, plan.WaitRepartition, plan.WaitReclaim}

// changes lists the candidates that would serve the pod: single ones, or pairs if no single
// one does. For a pod that is served already it is empty.
func changes(s plan.Snapshot, p plan.Policy, e plan.Explanation) (found []Change, tried int) {
	if slices.Contains(serves, e.Verdict.Reason) {
		return nil, 0
	}
	all := candidates(s, p, e)
	all = all[:min(len(all), maxTries)]
	attempt := func(c candidate) {
		tried++
		if v, ok := try(s, p, e, c.apply); ok {
			found = append(found, Change{Who: c.who, What: c.what, Then: Answer{Reason: string(v.Reason), Detail: v.Detail}})
		}
	}
	for _, c := range all {
		attempt(c)
	}
	pairs := maxPairs
	if len(s.Pods)+len(s.Nodes) > largeSnapshot {
		pairs = 0
	}
	for i := 0; i < len(all) && len(found) == 0; i++ {
		for j := i + 1; j < len(all) && tried < len(all)+pairs; j++ {
			attempt(both(all[i], all[j]))
		}
	}
	return found, tried
}

// both is the combination of two changes.
func both(a, b candidate) candidate {
	who := a.who
	if b.who != who {
		who += " and " + b.who
	}
	return candidate{who, a.what + ", and " + b.what, func(w *world) { a.apply(w); b.apply(w) }}
}

// try plans with a change and reports whether that serves the pod; a member of a gang is
// served if the gang is.
func try(s plan.Snapshot, p plan.Policy, e plan.Explanation, change func(w *world)) (plan.Verdict, bool) {
	w := copyOf(s, p, e)
	change(w)
	made := plan.Make(w.Snapshot, w.policy)
	if e.Pod.Gang != "" {
		v, _ := verdictOf(made, plan.KindGang, e.Pod.Gang)
		return v, v.Reason == plan.GangServed || v.Reason == plan.WaitScheduler
	}
	v, _ := verdictOf(made, plan.KindPod, e.Pod.Key())
	return v, slices.Contains(serves, v.Reason)
}

// least is the smallest number from 1 to most that serves the pod, by binary search; 0 if
// most does not serve it.
func least(s plan.Snapshot, p plan.Policy, e plan.Explanation, most int, change func(n int) func(w *world)) int {
	if _, ok := try(s, p, e, change(most)); !ok {
		return 0
	}
	low, high := 0, most // high serves it
	for high-low > 1 {
		n := (low + high) / 2
		if _, ok := try(s, p, e, change(n)); ok {
			high = n
		} else {
			low = n
		}
	}
	return high
}

func candidates(s plan.Snapshot, p plan.Policy, e plan.Explanation) []candidate {
	var out []candidate
	add := func(who, what string, apply func(w *world)) { out = append(out, candidate{who, what, apply}) }
	if p.Freeze {
		add(platform, "lift the freeze (policy.freeze)", func(w *world) { w.policy.Freeze = false })
	}
	if e.Pod.Tenant != "" {
		out = append(out, quotaCandidates(s, p, e)...)
	}
	for _, o := range e.Options {
		if len(out) >= maxTries { // poolCandidates may plan, too
			break
		}
		switch {
		case o.Kind == plan.OptionNode && !o.Possible:
			out = append(out, poolCandidates(s, p, e, o)...)
		case o.Kind == plan.OptionReclaim && !p.ReclaimBorrowed && e.Pod.Tenant != "":
			add(platform, "reclaim what other tenants have borrowed (policy.reclaimBorrowed)", func(w *world) { w.policy.ReclaimBorrowed = true })
		case o.Kind == plan.OptionRepartition && !o.Possible && len(e.Pod.Demand.MIG) > 0:
			out = append(out, repartitionCandidates(s)...)
		}
	}
	if e.Verdict.Reason == plan.BoundReached || p.MaxActionsPerReconcile == 0 {
		add(platform, "raise policy.maxActionsPerReconcile and maxNodesPerScaleUp, or wait for the next reconcile", func(w *world) {
			w.policy.MaxActionsPerReconcile, w.policy.MaxNodesPerScaleUp = w.policy.MaxActionsPerReconcile+1000, w.policy.MaxNodesPerScaleUp+1000
		})
	}
	if e.Verdict.Reason == plan.Expendable {
		add(podOwner, fmt.Sprintf("give it a priority of %d or more", p.ExpendablePodsPriorityCutoff), func(w *world) {
			w.each(func(q *plan.Pod) { q.Priority = max(q.Priority, int32(w.policy.ExpendablePodsPriorityCutoff)) })
		})
	}
	if e.Pod.GangMin > 1 {
		out = append(out, smallerGang(s, p, e)...)
	}
	return out
}

// poolCandidates are changes of a pool, or of the pod's requirements on it.
func poolCandidates(s plan.Snapshot, p plan.Policy, e plan.Explanation, o plan.Option) []candidate {
	pool := (&world{Snapshot: s}).pool(o.On)
	switch o.Reason {
	case plan.PoolAtMax, plan.CapacityKept:
		most := min(max(e.Pod.GangMin, 1), 1<<16)
		n := least(s, p, e, most, func(n int) func(w *world) { return raised(pool, n).apply })
		return []candidate{raised(pool, max(n, 1))}
	case plan.Frozen:
		return []candidate{{platform, "lift the freeze of pool " + o.On, func(w *world) { w.pool(o.On).Freeze = false }}}
	case plan.BackingOff:
		return []candidate{{platform, "make the provider of pool " + o.On + " provide nodes again", func(w *world) { w.pool(o.On).BackoffUntil = time.Time{} }}}
	case plan.BoundReached:
		return []candidate{{platform, "raise policy.maxNodesPerHour, or wait until the hour is over", func(w *world) { w.policy.MaxNodesPerHour += 1000 }}}
	case plan.BorrowedWaits:
		return []candidate{{platform, "scale up for borrowed capacity (policy.scaleUpBorrowed)", func(w *world) { w.policy.ScaleUpBorrowed = true }}}
	case plan.NoPoolFits:
		return misfits(pool, e)
	}
	return nil
}

func raised(pool *plan.Pool, by int) candidate {
	name, to := pool.Name, max(pool.Max, pool.Target, pool.Size)+by
	return candidate{platform, fmt.Sprintf("raise max of pool %s from %d to %d", name, pool.Max, to), func(w *world) { w.pool(name).Max = to }}
}

// misfits are changes of the pod, one for each of its requirements that a pool does not
// meet.
func misfits(pool *plan.Pool, e plan.Explanation) []candidate {
	var out []candidate
	each := func(what string, change func(q *plan.Pod)) {
		out = append(out, candidate{podOwner, what, func(w *world) { w.each(change) }})
	}
	t, pod := pool.Template, e.Pod
	if len(t.Taints) > 0 && !plan.Admits(pod, "", t.Labels, t.Taints) && plan.Admits(pod, "", t.Labels, nil) {
		var keys []string
		var tolerations []plan.Toleration
		for _, taint := range t.Taints {
			keys = append(keys, taint.Key)
			tolerations = append(tolerations, plan.Toleration{Key: taint.Key, Operator: "Exists", Effect: taint.Effect})
		}
		each(fmt.Sprintf("tolerate %s of pool %s", strings.Join(keys, ", "), pool.Name), func(q *plan.Pod) {
			q.Tolerations = append(slices.Clone(q.Tolerations), tolerations...)
		})
	}
	if !plan.Admits(pod, "", t.Labels, nil) {
		var only map[string]string // keeps other pools from serving it
		if name, ok := t.Labels[poolLabel]; ok {
			only = map[string]string{poolLabel: name}
		}
		each("let its node selector and affinity match pool "+pool.Name, func(q *plan.Pod) { q.NodeSelector, q.Affinity = only, nil })
	}
	if reaching := pod; len(pod.Volumes) > 0 && !plan.Admits(pod, "", t.Labels, t.Taints) {
		if reaching.Volumes = nil; plan.Admits(reaching, "", t.Labels, t.Taints) {
			each("use volumes that nodes of pool "+pool.Name+" can use", func(q *plan.Pod) { q.Volumes = nil })
		}
	}
	if ports := (plan.Pod{HostPorts: t.HostPorts}); plan.ConflictsOnHost(pod, ports) {
		each("request no host port that DaemonSets take on nodes of pool "+pool.Name, func(q *plan.Pod) { q.HostPorts = nil })
	}
	if pod.CPUMilli > t.CPUMilli && t.CPUMilli > 0 {
		each(fmt.Sprintf("request at most %d CPU, as nodes of pool %s have", t.CPUMilli/1000, pool.Name), func(q *plan.Pod) { q.CPUMilli = min(q.CPUMilli, t.CPUMilli) })
	}
	if pod.MemoryMi > t.MemoryMi && t.MemoryMi > 0 {
		each(fmt.Sprintf("request at most %d Gi of memory, as nodes of pool %s have", t.MemoryMi/1024, pool.Name), func(q *plan.Pod) { q.MemoryMi = min(q.MemoryMi, t.MemoryMi) })
	}
	if n := len(t.GPUs); pod.Demand.GPUs > n && n > 0 {
		each(fmt.Sprintf("request at most %d GPUs in one pod, as nodes of pool %s have", n, pool.Name), func(q *plan.Pod) { q.Demand.GPUs = min(q.Demand.GPUs, n) })
	}
	return out
}

// repartitionCandidates are changes that would allow repartitions.
func repartitionCandidates(s plan.Snapshot) []candidate {
	out := []candidate{{platform, "repartition without waiting for idle instances (mig.idleAfter, policy.repartitionCooldown)", func(w *world) {
		w.policy.RepartitionCooldown = 0
		for i := range w.Pools {
			w.Pools[i].MIG.IdleAfter = 0
		}
	}}}
	if slices.ContainsFunc(s.Pools, func(p plan.Pool) bool { return len(p.MIG.Allowed) > 0 }) {
		out = append(out, candidate{platform, "allow more profiles (mig.allowedProfiles)", func(w *world) {
			for i := range w.Pools {
				w.Pools[i].MIG.Allowed = nil
			}
		}})
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		if gpus := p.Template.GPUs; !p.MIG.Repartition && len(gpus) > 0 && gpus[0].MIG {
			out = append(out, candidate{platform, "allow repartitions in pool " + p.Name + " (mig.actuator)", func(w *world) { w.pool(p.Name).MIG.Repartition = true }})
		}
	}
	return out
}

// quotaCandidates are changes of the quotas of the pod's tenant and its ancestors.
func quotaCandidates(s plan.Snapshot, p plan.Policy, e plan.Explanation) []candidate {
	if e.Verdict.Reason != plan.QuotaExceeded && e.Verdict.Reason != plan.GangWaits && e.Verdict.Reason != plan.BorrowedWaits {
		return nil
	}
	if quota, resource, ok := exhausted(e.Pod.Tenant); ok {
		return []candidate{{platform, fmt.Sprintf("raise %s of ResourceQuota %s", resource, quota), func(w *world) {
			for _, i := range lineage(w.Tenants, e.Pod.Tenant) {
				w.Tenants[i].Guarantee, w.Tenants[i].Limit = unbounded, unbounded
			}
		}}}
	}
	members := len(copyOf(s, p, e).served)
	gpus := max(int(math.Ceil(e.Weight*float64(members))), 1)
	more := quota.Amount{Compute: 7 * int64(gpus), Memory: 8 * int64(gpus)} // the slices of a GPU
	text := fmt.Sprintf("%d GPU", gpus)
	line := lineage(s.Tenants, e.Pod.Tenant)
	if len(line) == 0 {
		return nil
	}
	names := make([]string, len(line))
	for j, i := range line {
		names[j] = s.Tenants[i].Name
	}
	out := []candidate{{platform, fmt.Sprintf("raise the limit of %s by %s", strings.Join(names, " and "), text), func(w *world) {
		for _, i := range line {
			w.Tenants[i].Limit = w.Tenants[i].Limit.Add(more)
		}
	}}, {platform, fmt.Sprintf("raise the guarantee and the limit of %s by %s", names[0], text), func(w *world) {
		for _, i := range line {
			w.Tenants[i].Limit = w.Tenants[i].Limit.Add(more)
		}
		w.Tenants[line[0]].Guarantee = w.Tenants[line[0]].Guarantee.Add(more)
	}}, {platform, "remove the borrow limit of " + names[0], func(w *world) {
		w.Tenants[line[0]].Borrow = quota.All()
	}}}
	return out
}

var unbounded = quota.All()

// exhausted reads the ResourceQuota and the resource that keep pods from being created from
// the name of the ledger's tenant for such pods.
func exhausted(tenant string) (quota, resource string, ok bool) {
	rest, ok := strings.CutPrefix(tenant, "resourcequota/")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "/no-more/")
}

// lineage returns the indices of a tenant and its ancestors.
func lineage(tenants []plan.Tenant, name string) []int {
	var out []int
	for name != "" && len(out) < len(tenants) {
		i := slices.IndexFunc(tenants, func(t plan.Tenant) bool { return t.Name == name })
		if i < 0 {
			break
		}
		out, name = append(out, i), tenants[i].Parent
	}
	return out
}

// smallerGang finds the largest minimum of the gang that would be served.
func smallerGang(s plan.Snapshot, p plan.Policy, e plan.Explanation) []candidate {
	all := min(e.Pod.GangMin, 1<<16)
	without := func(n int) func(w *world) {
		return func(w *world) { w.each(func(q *plan.Pod) { q.GangMin = max(all-n, 1) }) }
	}
	n := least(s, p, e, all-1, without)
	if n == 0 {
		return nil
	}
	return []candidate{{podOwner, fmt.Sprintf("lower the minimum of gang %[3]s from %[2]d to %[1]d members", all-n, all, e.Pod.Gang), without(n)}}
}
