package plan

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// conditions are what a plan is decided under. Their methods judge one node, pool, pod or
// GPU by its times and by what the policy allows; they read nothing else of the world.
type conditions struct {
	now      time.Time
	policy   Policy
	state    State  // as earlier reconciles left it, and with what each stage records of its own actions
	hold     Reason // why nothing at all is done, empty for no reason; set by judgeNodes
	idleHold string // why idle nodes are not acted on, empty for no reason; set by holdIdle
}

// world is Make's working copy: the snapshot, what is upcoming, and what this
// plan has promised so far.
type world struct {
	*conditions
	models models

	pools   []poolState
	nodes   []nodeState // real ones by name, then upcoming ones
	nodeAt  map[string]int
	kinds   []kind
	kindAt  map[string]int
	pending []pending   // most urgent first
	units   []unit      // pending pods that are served together, most urgent first
	gangs   []*gang     // by name
	running []placedPod // by namespace and name

	forecasts []Forecast // by name
	expected  []verdict  // on forecasts

	tenants []Tenant // by name
	tree    quota.Tree
	ran     quota.Tree // tree before any pending pod was charged

	borrowers   []borrowers // nodes with pods of tenants that have borrowed
	evicted     int         // number of pods that this plan evicts
	expecting   int         // further replicas of the forecast that is prepared for
	committing  bool        // a gang is served whatever bound delays part of it
	staging     bool        // so are evictions
	stopping    []*Pod      // what stops anyway, and the members served in trials, see reclaimTogether
	stopOnly    bool        // nothing else may be evicted
	retried     int
	rest        [][]mig.Count // by pool, what the rest of that gang requests
	reopenable  []int         // nodes whose drain a pending pod may end
	spent       float64       // cost of the options taken
	lowest      int64         // priority of the pools whose new or unclaimed nodes are used, see inOnePlace
	evictedPods map[*Pod]bool // which pods, those of a later plan included
	// evictedLater are the pods that a later plan evicts, and for which pod.
	evictedLater map[*Pod]string
	budgets      map[string]int // evictions that disruption budgets still allow

	actions        []Action
	finishing      int // actions that end what is under way, the first ones
	scale          *Scale
	further        [][]mig.Count // by pool, see furtherDemand
	names          names
	on             []string  // "on NAME", by node
	gpuVerdicts    []Verdict // where nothing is decided, by node and position; the first of all verdicts
	allocatedTexts map[[2]int]string
	topology       topology
	groupings      map[string]*grouping
	journal        journal
	watch          *watch // the pods being explained, nil in Make
}

// placedPod is a running pod and its node, -1 for an unknown one.
type placedPod struct {
	node int
	pod  *Pod
}

// verdict is a reason and its detail.
type verdict struct {
	reason Reason
	detail string
}

// pending is a pending pod.
type pending struct {
	pod      *Pod
	kind     int
	served   bool // by free or upcoming capacity, or by an action of this plan
	refused  bool // by its quota
	borrowed bool // beyond its tenant's guarantee
	charged  bool // counted in the tree
	counted  bool // in its kind's unserved
	reason   Reason
	detail   string
}

// tier is when a node's free capacity is supply.
type tier uint8

const (
	tierOut    tier = iota // never, as far as is known
	tierNow                // the scheduler can use it
	tierChange             // when its GPUs have been repartitioned
	tierNode               // when the node is ready
)

type nodeState struct {
	*Node        // as in the snapshot, but its GPUs in order; never written to
	virtual bool // it has no object yet
	// unclaimed is a virtual node that no pod of this reconcile uses yet. It was
	// requested in an earlier reconcile and is used where a new one would be: so
	// the same pods get the same options before and after that request.
	unclaimed bool
	name      string
	pool      *poolState // nil for none
	class     int        // of nodes that are equal to selectors and taints
	tier      tier
	since     Reason // verdict when not tierNow
	at        time.Time
	capacity
	facts
	bound        int // pods that keep it from being empty
	leaving      int // of those, pods that are leaving
	leftAt       time.Time
	pods         []*Pod // bound here
	promised     int    // pending pods that will use it
	booting      bool   // the device plugin offers only part of what is coming
	settling     bool   // the scheduler is about to bind pods here
	settlingGang string // the gang whose members that are not made yet are all of these pods, empty for others
	changeAt     time.Time
	expected     []GPU    // the GPUs it will have, for a node that shows none yet
	later        string   // the bound that delays what is reserved here
	repartition  []int    // positions of the GPUs that this plan repartitions
	action       int      // the action that provides it, -1 for none
	decided      verdict  // of scale down: replaces the verdict
	saved        int      // the trial that has journalled it
	derived      *derived // nil for nothing yet, see derive
}

// derived is what follows from the state of a node's GPUs.
type derived struct {
	splits []*split
	// judged is set once candidates, the GPUs that could be repartitioned, and
	// blocked, what prevents it for the others, are known.
	judged     bool
	candidates []candidate
	blocked    causes
	estimates  []estimate // by number of the request
}

type poolState struct {
	*Pool
	index  int      // in the world's pools
	empty  capacity // of a new node
	boot   []split  // its MIG GPUs, all of which may go
	class  int
	base   int // nodes requested before this plan
	grown  int // nodes this plan adds
	later  int // nodes reserved that a later plan adds
	shrunk int // nodes this plan removes
	// dearest is the highest known price of a GPU for an hour, of any pool.
	dearest float64
	// settled are those of shrunk whose removal an earlier plan has decided.
	settled int
	// For scale down: nodes being drained, being replaced, with a sick GPU, empty
	// for long enough; and what this plan does.
	draining, replacing, sick, surplus int
	does                               verdict
	action                             int   // ScaleUp, -1 for none
	spare                              []int // unclaimed nodes
	observed, unobserved               bool  // the allocation of some node is known; of none for long
	stop                               Reason
	keptFor                            string // the gang that its remaining nodes are kept for
	kept                               int32  // and that gang's priority
	why                                string
	requestedAt                        time.Time // when nodes were last requested
	missingSince                       time.Time // since when a node is missing and none has come
	newest                             time.Time // when its newest node was created
	newNodes                           []int     // new nodes that run nothing, see templateMismatch
}

// newWorld sorts and indexes the snapshot and computes when capacity is supply.
func newWorld(s Snapshot, p Policy) *world {
	w := &world{conditions: &conditions{now: s.Now, policy: p, state: s.State}, models: newModels(s.Tables),
		kindAt: map[string]int{}, evictedPods: map[*Pod]bool{}, evictedLater: map[*Pod]string{}, budgets: map[string]int{}, allocatedTexts: map[[2]int]string{},
		groupings: map[string]*grouping{}, topology: topology{rules: map[Rule]*ruleCount{}, byGroup: map[string][]*ruleCount{}, assumed: map[Rule]string{}}}
	w.addPools(s.Pools)
	w.addNodes(s.Nodes)
	w.readGPUs(len(s.Nodes) + len(s.Pods) + len(s.Pods)/16 + len(s.Forecasts) + len(s.Pools) + len(s.Tenants)) // with gangs
	w.addPods(s.Pods)
	w.addForecasts(s.Forecasts)
	w.judgeNodes()
	w.judgePools()
	w.classify()
	w.countRunning()
	w.addUnregistered()
	w.addTenants(s.Tenants)
	return w
}

func (w *world) addPools(pools []Pool) {
	sorted := slices.Clone(pools)
	slices.SortStableFunc(sorted, func(a, b Pool) int { return strings.Compare(a.Name, b.Name) })
	for i := range sorted {
		p := &sorted[i]
		p.Template.GPUs = sortedGPUs(p.Template.GPUs)
		ps := poolState{Pool: p, index: i, action: -1, base: max(p.Target, p.Size, 0)}
		ps.empty = offering(p.Template.CPUMilli, p.Template.MemoryMi, p.Template.Others)
		ps.empty.ports = p.Template.HostPorts
		single := p.Template.Labels[strategySingle] == "single"
		for c := range p.Template.GPUs {
			w.models.supplyTo(&ps.empty, &p.Template.GPUs[c], single)
			w.models.noteModel(p.Template.GPUs[c].Model)
		}
		for c := range p.Template.GPUs {
			if device := &p.Template.GPUs[c]; device.MIG && device.Model.Name == ps.empty.model {
				all := layoutOf(device)
				ps.boot = append(ps.boot, split{before: all, spare: all, removed: mig.Counts(all)})
			}
		}
		w.pools = append(w.pools, ps)
	}
	w.estimatePrices()
}

// estimatePrices is what a GPU of an unpriced pool counts.
func (w *world) estimatePrices() {
	dearest := 0.0
	for i := range w.pools {
		if p := &w.pools[i]; p.PricePerHour > 0 {
			dearest = max(dearest, p.PricePerHour/float64(max(1, len(p.Template.GPUs))))
		}
	}
	for i := range w.pools {
		w.pools[i].dearest = cmp.Or(dearest, 1)
	}
}

func (ms *models) noteModel(m gpu.Model) {
	if !slices.Contains(ms.seen, m) {
		ms.seen = append(ms.seen, m)
	}
}

// poolNamed is nil for none.
func (w *world) poolNamed(name string) *poolState {
	i, ok := sort.Find(len(w.pools), func(i int) int { return strings.Compare(name, w.pools[i].Name) })
	if !ok || name == "" {
		return nil
	}
	return &w.pools[i]
}

func (w *world) nodeIndex(name string) int {
	if i, ok := w.nodeAt[name]; ok && name != "" {
		return i
	}
	return -1
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

// inOrder is a list sorted. It copies only what is not in order: GPUs are large.
func inOrder[T any](list []T, compare func(a, b *T) int) []T {
	for i := 1; i < len(list); i++ {
		if compare(&list[i-1], &list[i]) > 0 {
			list = slices.Clone(list)
			slices.SortStableFunc(list, func(a, b T) int { return compare(&a, &b) })
			return list
		}
	}
	return list
}

func sortedGPUs(gpus []GPU) []GPU {
	out := inOrder(gpus, func(a, b *GPU) int { return cmp.Compare(a.Index, b.Index) })
	for c := range out {
		instances := inOrder(out[c].Instances, compareInstances)
		if len(instances) > 0 && &instances[0] != &out[c].Instances[0] {
			if &out[0] == &gpus[0] {
				out = slices.Clone(gpus)
			}
			out[c].Instances = instances
		}
	}
	return out
}

func compareInstances(a, b *Instance) int {
	if a.Start != b.Start { // nearly always
		return cmp.Compare(a.Start, b.Start)
	}
	return cmp.Or(a.Placement.Compare(b.Placement), strings.Compare(a.AllocatedTo, b.AllocatedTo), a.IdleSince.Compare(b.IdleSince))
}

// addPods reads each running pod once, in bindRunning, as readGPUs does GPUs.
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
		w.pending = append(w.pending, pending{pod: p, kind: w.kindOf(p)})
	}
	w.formUnits(ganged)
}

// notePod records what of a pod concerns others: its rules, and its budgets, of which the
// least that pods state holds.
func (w *world) notePod(p *Pod) {
	w.ruled(p)
	for _, b := range p.Budgets {
		if left, ok := w.budgets[b.Name]; !ok || b.Allowed < left {
			w.budgets[b.Name] = b.Allowed
		}
	}
}

func byKey(a, b *Pod) int {
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

// kindOf returns the index of the pod's kind.
func (w *world) kindOf(p *Pod) int {
	key := w.kindKey(p)
	i, ok := w.kindAt[key]
	if !ok {
		if p.PartsOn != nil { // where it runs, not where the next one does
			next := *p
			next.PartsOn, p = nil, &next
		}
		i = len(w.kinds)
		w.kindAt[key] = i
		w.kinds = append(w.kinds, kind{pod: p, failedTrial: -1, text: requestText(p), eq: float64(slicesOf(p)) / gpuSlices})
	}
	return i
}

// layoutOf returns the instances of a GPU of the world, which are in order, as a layout.
func layoutOf(c *GPU) mig.Layout {
	l := make(mig.Layout, len(c.Instances))
	for i := range c.Instances {
		l[i] = c.Instances[i].Placement
	}
	return l
}
