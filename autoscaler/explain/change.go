package explain

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/quota"
	"github.com/gpuscale/gpuscale/plan"
)

const (
	// maxTries bounds the single changes that are tried, maxPairs the pairs that are tried if no single one helps. Each
	// try takes a plan.
	maxTries, maxPairs = 16, 30
	// largeSnapshot is the number of pods and nodes above which pairs are not tried: a plan takes too long.
	largeSnapshot = 20000
	// maxGang bounds the members of a gang in searches for a number.
	maxGang = 1 << 16
	// poolLabel is the label of a pool's nodes.
	poolLabel = "gpuscale.io/pool"
)

// Who can make a change.
const (
	podOwner = "pod owner"
	platform = "platform"
)

// candidate is a change to try.
type candidate struct {
	who, what string
	apply     func(w *world)
}

// world is a copy of a snapshot and a policy for candidates to change: its pools, pods and tenants.
type world struct {
	plan.Snapshot
	policy plan.Policy
	served []*plan.Pod // the pods that the change is for: one pod, or its gang
}

func (w *world) pool(name string) *plan.Pool {
	return &w.Pools[slices.IndexFunc(w.Pools, func(p plan.Pool) bool { return p.Name == name })]
}

// search collects the changes that may serve the pod of an explanation.
type search struct {
	s          plan.Snapshot
	p          plan.Policy
	e          plan.Explanation
	candidates []candidate
}

// changes lists the candidates that would serve the pod: single ones, or pairs if no single
// one does. For a pod that is served already it is empty.
func changes(s plan.Snapshot, p plan.Policy, e plan.Explanation) (found []Change, tried int) {
	if slices.Contains(plan.Served, e.Verdict.Reason) {
		return nil, 0
	}
	q := candidates(s, p, e)
	all := q.candidates[:min(len(q.candidates), maxTries)]
	attempt := func(c candidate) {
		tried++
		if v, ok := q.try(c.apply); ok {
			found = append(found, Change{Who: c.who, What: c.what, Then: Answer{Reason: string(v.Reason), Detail: v.Detail}})
		}
	}
	for _, c := range all {
		attempt(c)
	}
	if len(s.Pods)+len(s.Nodes) > largeSnapshot {
		return found, tried
	}
	for i, a := range all {
		if len(found) > 0 {
			break
		}
		for _, b := range all[i+1:] {
			if tried < len(all)+maxPairs {
				who := strings.Join(slices.Compact([]string{a.who, b.who}), " and ")
				attempt(candidate{who, a.what + ", and " + b.what, func(w *world) { a.apply(w); b.apply(w) }})
			}
		}
	}
	return found, tried
}

func (q *search) copy() *world {
	w := &world{Snapshot: q.s, policy: q.p}
	w.Pools, w.Pods, w.Tenants = slices.Clone(q.s.Pools), slices.Clone(q.s.Pods), slices.Clone(q.s.Tenants)
	for i := range w.Pods {
		if p := &w.Pods[i]; p.Key() == q.e.Pod.Key() || q.e.Pod.Gang != "" && p.Gang == q.e.Pod.Gang {
			w.served = append(w.served, p)
		}
	}
	return w
}

// try plans with a change and reports whether that serves the pod; a member of a gang is
// served if the gang is.
func (q *search) try(change func(w *world)) (plan.Verdict, bool) {
	w := q.copy()
	change(w)
	made := plan.Make(w.Snapshot, w.policy)
	if q.e.Pod.Gang != "" {
		v := verdictOf(made, plan.KindGang, q.e.Pod.Gang)
		return v, v.Reason == plan.GangServed || v.Reason == plan.WaitScheduler
	}
	v := verdictOf(made, plan.KindPod, q.e.Pod.Key())
	return v, slices.Contains(plan.Served, v.Reason)
}

// least is the smallest number from 1 to most with which the change serves the pod; 0 if most does not.
func (q *search) least(most int, change func(w *world, n int)) int {
	helps := func(n int) bool {
		_, ok := q.try(func(w *world) { change(w, n) })
		return ok
	}
	if !helps(most) {
		return 0
	}
	return 1 + sort.Search(most-1, func(i int) bool { return helps(i + 1) })
}

// add adds a change of the platform's.
func (q *search) add(what string, apply func(w *world)) {
	q.candidates = append(q.candidates, candidate{platform, what, apply})
}

// addForPods adds a change of the pods themselves.
func (q *search) addForPods(what string, change func(p *plan.Pod)) {
	q.candidates = append(q.candidates, candidate{podOwner, what, func(w *world) {
		for _, p := range w.served {
			change(p)
		}
	}})
}

func candidates(s plan.Snapshot, p plan.Policy, e plan.Explanation) *search {
	q := &search{s: s, p: p, e: e}
	if p.Freeze {
		q.add("lift the freeze (policy.freeze)", func(w *world) { w.policy.Freeze = false })
	}
	q.quotas()
	for _, o := range e.Options {
		if len(q.candidates) >= maxTries { // finding those of a pool may take plans
			break
		}
		switch {
		case o.Kind == plan.OptionNode && !o.Possible:
			q.pool(o)
		case o.Kind == plan.OptionReclaim && !p.ReclaimBorrowed && e.Pod.Tenant != "":
			q.add("reclaim what other tenants have borrowed (policy.reclaimBorrowed)", func(w *world) { w.policy.ReclaimBorrowed = true })
		case o.Kind == plan.OptionRepartition && !o.Possible && len(e.Pod.Demand.MIG) > 0:
			q.repartitions()
		}
	}
	if e.Verdict.Reason == plan.BoundReached || p.MaxActionsPerReconcile == 0 {
		q.add("raise policy.maxActionsPerReconcile and maxNodesPerScaleUp, or wait for the next reconcile", func(w *world) {
			w.policy.MaxActionsPerReconcile, w.policy.MaxNodesPerScaleUp = w.policy.MaxActionsPerReconcile+1000, w.policy.MaxNodesPerScaleUp+1000
		})
	}
	if e.Verdict.Reason == plan.Expendable {
		q.addForPods(fmt.Sprintf("give it a priority of %d or more", p.ExpendablePodsPriorityCutoff), func(pod *plan.Pod) {
			pod.Priority = max(pod.Priority, int32(p.ExpendablePodsPriorityCutoff))
		})
	}
	if most := min(e.Pod.GangMin, maxGang); most > 1 { // the largest minimum that would be served
		if n := q.least(most-1, func(w *world, n int) {
			for _, pod := range w.served {
				pod.GangMin = most - n
			}
		}); n > 0 {
			q.addForPods(fmt.Sprintf("lower the minimum of gang %s from %d to %d members", e.Pod.Gang, most, most-n), func(pod *plan.Pod) { pod.GangMin = most - n })
		}
	}
	return q
}

// pool adds changes of a pool that cannot grow for the pod, or of the pod's requirements on it.
func (q *search) pool(o plan.Option) {
	of := func(what string, change func(p *plan.Pool)) { q.add(what, func(w *world) { change(w.pool(o.On)) }) }
	switch o.Reason {
	case plan.PoolAtMax, plan.CapacityKept:
		raise := func(w *world, n int) { p := w.pool(o.On); p.Max = max(p.Max, p.Target, p.Size) + n }
		n := max(q.least(min(max(q.e.Pod.GangMin, 1), maxGang), raise), 1)
		w := q.copy()
		from := w.pool(o.On).Max
		raise(w, n)
		q.add(fmt.Sprintf("raise max of pool %s from %d to %d", o.On, from, w.pool(o.On).Max), func(w *world) { raise(w, n) })
	case plan.Frozen:
		of("lift the freeze of pool "+o.On, func(p *plan.Pool) { p.Freeze = false })
	case plan.BackingOff:
		of("make the provider of pool "+o.On+" provide nodes again", func(p *plan.Pool) { p.BackoffUntil = time.Time{} })
	case plan.BoundReached:
		q.add("raise policy.maxNodesPerHour, or wait until the hour is over", func(w *world) { w.policy.MaxNodesPerHour += 1000 })
	case plan.BorrowedWaits:
		q.add("scale up for borrowed capacity (policy.scaleUpBorrowed)", func(w *world) { w.policy.ScaleUpBorrowed = true })
	case plan.NoPoolFits:
		q.misfits((&world{Snapshot: q.s}).pool(o.On))
	}
}

// misfits adds changes of the pod, one for each of its requirements that a pool does not
// meet.
func (q *search) misfits(pool *plan.Pool) {
	t, pod := pool.Template, q.e.Pod
	if len(t.Taints) > 0 && !plan.Admits(pod, "", t.Labels, t.Taints) && plan.Admits(pod, "", t.Labels, nil) {
		var keys []string
		var tolerations []plan.Toleration
		for _, taint := range t.Taints {
			keys = append(keys, taint.Key)
			tolerations = append(tolerations, plan.Toleration{Key: taint.Key, Operator: "Exists", Effect: taint.Effect})
		}
		q.addForPods(fmt.Sprintf("tolerate %s of pool %s", strings.Join(keys, ", "), pool.Name), func(p *plan.Pod) {
			p.Tolerations = append(slices.Clone(p.Tolerations), tolerations...)
		})
	}
	if !plan.Admits(pod, "", t.Labels, nil) {
		var only map[string]string // keeps other pools from serving it
		if name, ok := t.Labels[poolLabel]; ok {
			only = map[string]string{poolLabel: name}
		}
		q.addForPods("let its node selector and affinity match pool "+pool.Name, func(p *plan.Pod) { p.NodeSelector, p.Affinity = only, nil })
	}
	if reaching := pod; len(pod.Volumes) > 0 && !plan.Admits(pod, "", t.Labels, t.Taints) {
		if reaching.Volumes = nil; plan.Admits(reaching, "", t.Labels, t.Taints) {
			q.addForPods("use volumes that nodes of pool "+pool.Name+" can use", func(p *plan.Pod) { p.Volumes = nil })
		}
	}
	if plan.ConflictsOnHost(pod, plan.Pod{HostPorts: t.HostPorts}) {
		q.addForPods("request no host port that DaemonSets take on nodes of pool "+pool.Name, func(p *plan.Pod) { p.HostPorts = nil })
	}
	if pod.CPUMilli > t.CPUMilli && t.CPUMilli > 0 {
		q.addForPods(fmt.Sprintf("request at most %d CPU: a node of pool %s has no more", t.CPUMilli/1000, pool.Name), func(p *plan.Pod) { p.CPUMilli = min(p.CPUMilli, t.CPUMilli) })
	}
	if pod.MemoryMi > t.MemoryMi && t.MemoryMi > 0 {
		q.addForPods(fmt.Sprintf("request at most %d Gi of memory: a node of pool %s has no more", t.MemoryMi/1024, pool.Name), func(p *plan.Pod) { p.MemoryMi = min(p.MemoryMi, t.MemoryMi) })
	}
	if n := len(t.GPUs); pod.Demand.GPUs > n && n > 0 {
		q.addForPods(fmt.Sprintf("request at most %d GPUs in one pod: a node of pool %s has no more", n, pool.Name), func(p *plan.Pod) { p.Demand.GPUs = min(p.Demand.GPUs, n) })
	}
}

// repartitions adds changes that would allow repartitions.
func (q *search) repartitions() {
	q.add("repartition without waiting for idle instances (mig.idleAfter, policy.repartitionCooldown)", func(w *world) {
		w.policy.RepartitionCooldown = 0
		for i := range w.Pools {
			w.Pools[i].MIG.IdleAfter = 0
		}
	})
	if slices.ContainsFunc(q.s.Pools, func(p plan.Pool) bool { return len(p.MIG.Allowed) > 0 }) {
		q.add("allow more profiles (mig.allowedProfiles)", func(w *world) {
			for i := range w.Pools {
				w.Pools[i].MIG.Allowed = nil
			}
		})
	}
	for i, p := range q.s.Pools {
		if gpus := p.Template.GPUs; !p.MIG.Repartition && len(gpus) > 0 && gpus[0].MIG {
			q.add("allow repartitions in pool "+p.Name+" (mig.actuator)", func(w *world) { w.Pools[i].MIG.Repartition = true })
		}
	}
}

// starters are schedulers that start no pod of some queues, by the prefix of these tenants.
var starters = map[string]string{"kai": "KAI", "volcano": "Volcano"}

// quotas adds changes of the quotas of the pod's tenant and its ancestors.
func (q *search) quotas() {
	line := lineage(q.s.Tenants, q.e.Pod.Tenant)
	if len(line) == 0 || !slices.Contains([]plan.Reason{plan.QuotaExceeded, plan.GangWaits, plan.BorrowedWaits}, q.e.Verdict.Reason) {
		return
	}
	of := func(i int) string { return q.s.Tenants[i].Name }
	// The ledger's tenant of pods that a ResourceQuota refuses has the names of that quota and the resource. The tenant
	// of pods that KAI or Volcano does not start has the names of their queue and the reason.
	remedy := ""
	if name, resource, ok := strings.Cut(strings.TrimPrefix(of(line[0]), "resourcequota/"), "/no-more/"); ok {
		remedy = fmt.Sprintf("raise %s of ResourceQuota %s", resource, name)
	} else if held := strings.Split(of(line[0]), "/"); len(held) == 3 && starters[held[0]] != "" {
		remedy = fmt.Sprintf("remove the reason why %s does not start it in Queue %s: %s", starters[held[0]], held[1], held[2])
	}
	if remedy != "" {
		q.add(remedy, func(w *world) { w.Tenants[line[0]].Guarantee, w.Tenants[line[0]].Limit = quota.All(), quota.All() })
		return
	}
	gpus := max(int(math.Ceil(q.e.Weight*float64(len(q.copy().served)))), 1)
	more := quota.Amount{Compute: 7 * int64(gpus), Memory: 8 * int64(gpus)} // the slices of a GPU
	raise := func(w *world) {
		for _, i := range line {
			w.Tenants[i].Limit = w.Tenants[i].Limit.Add(more)
		}
	}
	var names []string
	for _, i := range line {
		names = append(names, of(i))
	}
	q.add(fmt.Sprintf("raise the limit of %s by %d GPU", strings.Join(names, " and "), gpus), raise)
	q.add(fmt.Sprintf("raise the guarantee and the limit of %s by %d GPU", names[0], gpus), func(w *world) {
		raise(w)
		w.Tenants[line[0]].Guarantee = w.Tenants[line[0]].Guarantee.Add(more)
	})
	q.add("remove the borrow limit of "+names[0], func(w *world) { w.Tenants[line[0]].Borrow = quota.All() })
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
