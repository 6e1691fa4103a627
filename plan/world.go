package plan

import (
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// world is Make's working copy: the snapshot, what is upcoming, and what this plan has
// promised so far. Its own methods are the stages. Data that only some stages need has a
// type of its own.
type world struct {
	*conditions             // time, policy, state
	*fleet                  // nodes and pools
	*queue                  // pending pods and kinds
	running     []placedPod // by namespace and name
	forecasts   []*forecast // by name
	journal     *journal    // undoes trials
	models      models      // MIG tables, and what was computed with them
	topology    *topology   // counts of pods by place
	quotas      quotas      // tenants and their use
	evictions   evictions   // pods that this plan evicts, and disruption budgets
	actions     actions     // of this plan
	serving     serving     // the gang or pod for which options are weighed
	watch       *watch      // the pods being explained, nil in Make

	reopenable  []int     // nodes whose drain a pending pod may end, see reopens
	names       names     // memory for the names in verdicts
	gpuVerdicts []Verdict // on all GPUs, by node and position, as readGPU makes them; verdicts begins with them
}

// placedPod is a running pod and its node, -1 for an unknown one.
type placedPod struct {
	node int
	pod  *Pod
}

// newWorld sorts and indexes the snapshot, and computes from when on each node is supply.
func newWorld(s Snapshot, p Policy) *world {
	at, all, undo := &conditions{now: s.Now, policy: p, state: s.State.asOf(s.Now)}, &fleet{}, &journal{}
	places := &topology{fleet: all, journal: undo, rules: map[Rule]*ruleCount{}, byGroup: map[string][]*ruleCount{}, assumed: map[Rule]string{}}
	w := &world{conditions: at, fleet: all, journal: undo, topology: places,
		models:    models{tables: s.Tables, tableOf: map[string]*mig.Table{}, requestIDs: map[string]int{}, answers: map[string]answer{}},
		queue:     &queue{journal: undo, topology: places, kindAt: map[string]*kind{}},
		evictions: evictions{conditions: at, fleet: all, journal: undo, pods: map[*Pod]bool{}, later: map[*Pod]string{}, budgets: map[string]int{}},
		actions:   actions{conditions: at, journal: undo}}
	w.addPools(s.Pools)
	w.addNodes(s.Nodes)
	w.readGPUs(len(s.Nodes) + len(s.Pods) + len(s.Pods)/16 + len(s.Forecasts) + len(s.Pools) + len(s.Tenants)) // with gangs
	w.addPods(s.Pods)
	w.addForecasts(s.Forecasts)
	w.judgeNodes()
	w.judgePools()
	w.classify()
	w.topology.countRunning(w.running)
	w.addUnregistered()
	w.quotas = newQuotas(w.fleet, s.Tenants, w.running, NewScale(s.Tables, w.models.seen), s.Now)
	return w
}

func (w *world) addPools(pools []Pool) {
	sorted := slices.Clone(pools)
	slices.SortStableFunc(sorted, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	for i := range sorted {
		p := &sorted[i]
		ps := &poolState{Pool: p, index: i, action: -1, base: max(p.Target, p.Size, 0)}
		name := "a new node of " + p.Name
		ps.fresh = &nodeState{Node: &Node{Name: name, Pool: p.Name}, virtual: true, name: name, pool: ps, tier: tierNode, since: NodeUpcoming,
			capacity: offering(p.Template.CPUMilli, p.Template.MemoryMi, p.Template.Others), expected: p.Template.GPUs}
		ps.fresh.ports = p.Template.HostPorts
		single := InstancesAsGPUs(p.Template.Labels)
		for c := range p.Template.GPUs {
			w.models.supplyNew(&ps.fresh.capacity, &p.Template.GPUs[c], single)
			w.models.noteModel(p.Template.GPUs[c].Model)
		}
		ps.boot = w.splits(ps.fresh)
		w.pools = append(w.pools, ps)
	}
	w.estimatePrices()
}

func (ms *models) noteModel(m gpu.Model) {
	if !slices.Contains(ms.seen, m) {
		ms.seen = append(ms.seen, m)
	}
}

func (w *world) addNodes(nodes []Node) {
	sorted := make([]*Node, len(nodes)) // they are large, and come in any order
	for i := range nodes {
		sorted[i] = &nodes[i]
	}
	slices.SortStableFunc(sorted, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) })
	w.nodes = make([]nodeState, len(sorted))
	w.nodeAt = make(map[string]int, len(sorted))
	for i, n := range sorted {
		if _, twice := w.nodeAt[n.Name]; !twice {
			w.nodeAt[n.Name] = i
		}
		s := &w.nodes[i] // it is large
		s.Node, s.name, s.pool, s.action = w.interrupted(n), n.Name, w.poolNamed(n.Pool), -1
	}
}

// addPods separates running from pending pods. It leaves the reading of running pods to
// bindRunning, so that each is read once: there are many, far apart in memory.
func (w *world) addPods(pods []Pod) {
	var pendingPods []*Pod
	w.running = make([]placedPod, 0, len(pods))
	node, name := -1, "" // pods of one node often follow each other
	for i := range pods {
		p := &pods[i]
		if p.Node == "" {
			w.notePod(p)
			pendingPods = append(pendingPods, p)
			continue
		}
		if p.Node != name {
			node, name = w.nodeIndex(p.Node), p.Node
		}
		w.running = append(w.running, placedPod{node, p})
	}
	slices.SortFunc(w.running, func(a, b placedPod) int { return byKey(a.pod, b.pod) })
	ganged := w.bindRunning()
	orderPending(pendingPods)
	for _, p := range pendingPods {
		w.pending = append(w.pending, pending{pod: p, kind: w.kindOf(p), rank: len(w.pending)})
	}
	w.evictions.gangs = w.formGangs(ganged)
}

// notePod records what concerns other pods: the pod's topology rules and its disruption
// budgets. Where pods state different numbers for one budget, the smallest counts.
func (w *world) notePod(p *Pod) {
	w.topology.ruled(p)
	for _, b := range p.Budgets {
		if left, ok := w.evictions.budgets[b.Name]; !ok || b.Allowed < left {
			w.evictions.budgets[b.Name] = b.Allowed
		}
	}
}

func byKey(a, b *Pod) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// layoutOf returns a GPU's instances as a layout.
func layoutOf(c *GPU) mig.Layout {
	l := make(mig.Layout, len(c.Instances))
	for i := range c.Instances {
		l[i] = c.Instances[i].Placement
	}
	return l
}
