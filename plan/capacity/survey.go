package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// Rules are the thresholds of a survey.
type Rules struct {
	// BootWithin is how long after its creation a node of a pool may be unready,
	// or show no GPUs, and still be Booting; three times the pool's ReadyAfter
	// where that is longer.
	BootWithin time.Duration
	// MaxBusyAge is how old a measured busy ratio may be; an older one is unknown.
	MaxBusyAge time.Duration
}

// DefaultRules are the default policy's, and Prometheus' lookback of five
// minutes.
func DefaultRules() Rules {
	return Rules{BootWithin: plan.DefaultPolicy().NodeOverdue, MaxBusyAge: 5 * time.Minute}
}

// Survey is every GPU of a snapshot with its parts. All tables are made from
// one Survey, so they agree. It shares the snapshot's memory and changes
// nothing.
type Survey struct {
	At   time.Time
	GPUs []GPU // by node, then index

	pods []*plan.Pod // that request accelerators, by key
	// fleet is the models, sorted; memoryMiB the least memory of a GPU.
	fleet     []string
	memoryMiB int
}

// GPU is one GPU with its parts, whose sizes add up to a whole GPU exactly, in
// compute and in memory.
type GPU struct {
	Node, Pool, Model string
	Index             int
	// State is Free for a GPU in service, and otherwise why it is not: Cordoned,
	// Repartitioning, Unknown, Booting, Unready or Sick.
	State     State
	Parts     []Part
	memoryMiB int
}

// Name is "node/index".
func (c *GPU) Name() string { return fmt.Sprintf("%s/%d", c.Node, c.Index) }

// Part of a GPU: a MIG instance, a pod's share of a GPU without MIG, what is
// free of it, or slices in no instance.
type Part struct {
	State State
	Cause Cause // of a Fragmented or Stranded part
	Size  Size
	// Profile of a MIG instance, zero for anything else.
	Profile mig.Profile
	// AllocatedTo is "namespace/pod", empty for none. Tenant is the pod's, empty
	// where it names none or is not in the snapshot.
	AllocatedTo, Tenant string
	// Busy is the share of time that the part, or the shared GPU it belongs to,
	// computes, 0 … 1.
	Busy sample.Value
}

// Namespace is that of the pod it is allocated to, empty for none.
func (p *Part) Namespace() string {
	namespace, _, _ := strings.Cut(p.AllocatedTo, "/")
	return namespace
}

// NewSurvey counts the GPUs of a snapshot.
func NewSurvey(s plan.Snapshot, r Rules) Survey {
	b := newBuilder(s, r)
	sv := Survey{At: s.Now, pods: b.requesting}
	nodes, gpus := make([]*plan.Node, len(s.Nodes)), 0
	for i := range s.Nodes {
		nodes[i] = &s.Nodes[i]
		gpus += len(nodes[i].GPUs)
	}
	sv.GPUs = make([]GPU, 0, gpus)
	slices.SortStableFunc(nodes, func(a, b *plan.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range nodes {
		sv.GPUs = append(sv.GPUs, b.node(n)...)
	}
	models := map[string]bool{}
	for i := range sv.GPUs {
		models[sv.GPUs[i].Model] = true
		if m := sv.GPUs[i].memoryMiB; m > 0 && (sv.memoryMiB == 0 || m < sv.memoryMiB) {
			sv.memoryMiB = m
		}
	}
	sv.fleet = slices.Sorted(maps.Keys(models))
	return sv
}

// builder indexes the snapshot.
type builder struct {
	now        time.Time
	rules      Rules
	pools      map[string]*plan.Pool
	pods       map[string]*plan.Pod // by key
	used       map[string]used      // by node
	requesting []*plan.Pod
	requests   []*request
	fits       *fits
}

// used is the requests of a node's pods together.
type used struct{ cpu, memory int64 }

func newBuilder(s plan.Snapshot, r Rules) *builder {
	b := &builder{now: s.Now, rules: r, pools: map[string]*plan.Pool{}, pods: make(map[string]*plan.Pod, len(s.Pods)),
		used: make(map[string]used, len(s.Nodes)), fits: newFits()}
	b.requesting = make([]*plan.Pod, 0, len(s.Pods))
	for i := range s.Pools {
		b.pools[s.Pools[i].Name] = &s.Pools[i]
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		b.pods[p.Key()] = p
		if p.Node != "" {
			u := b.used[p.Node]
			b.used[p.Node] = used{u.cpu + max(p.CPUMilli, 0), u.memory + max(p.MemoryMi, 0)}
		}
		if p.Unreadable != "" || !p.Demand.Zero() {
			b.requesting = append(b.requesting, p)
		}
	}
	slices.SortStableFunc(b.requesting, func(p, q *plan.Pod) int {
		return cmp.Or(strings.Compare(p.Namespace, q.Namespace), strings.Compare(p.Name, q.Name))
	})
	b.requests = newRequests(b.requesting)
	return b
}
