package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// use is what a part of a GPU is used for: an index into metric.PlaceWords. A part with a busy
// ratio of 0.3 counts as 0.3 busy and 0.7 slack; below idleBelow the rest is idle, not slack.
//
// Where several apply, sick goes first, then unready, booting and unknown, then the uses of
// pods, then the others. So an allocated part is sick on a sick GPU, and allocated on a cordoned
// node.
type use int

const (
	busy       use = iota
	slack          // allocated and in use, the share that does not compute
	idle           // allocated and hardly used, the share that does not compute
	unmeasured     // allocated, use unknown
	free
	fragmented     // free, but the layouts keep it from every pending pod
	stranded       // free, but its node keeps it from every pending pod
	cordoned       // free on a node that takes no new pods
	repartitioning // not allocated, on a node whose GPUs are being repartitioned
	booting        // on a node that is not ready yet
	unready        // on a node that should be ready
	sick
	unknown // allocation or layout unknown

	uses
)

func (u use) ofPod() bool { return u <= unmeasured }

// state is the word for a use in the states of GPUs: all uses of pods are "allocated".
func (u use) state() string {
	if u.ofPod() {
		return "allocated"
	}
	return metric.PlaceWords()[u]
}

const (
	// maxBusyAge is how old a measured busy ratio may be: Prometheus' lookback.
	maxBusyAge = 5 * time.Minute
	// idleBelow is the busy ratio below which an allocated GPU counts as idle.
	idleBelow = 0.01
	// rounding is more than the error of a sum of shares.
	rounding = 1e-9
)

// key identifies a row. tenant and namespace are those of the pod the GPU is allocated
// to, empty for none.
type key struct{ pool, model, tenant, namespace string }

func (k key) ofPod() bool { return k.tenant != "" || k.namespace != "" }

func (k key) compare(o key) int {
	return cmp.Or(strings.Compare(k.pool, o.pool), strings.Compare(k.model, o.model), strings.Compare(k.tenant, o.tenant),
		strings.Compare(k.namespace, o.namespace))
}

// survey is the GPUs of a snapshot by what they are used for. The uses of a GPU add up
// to 1.
type survey struct {
	*plan.Snapshot
	rows     map[key]*[uses]float64
	stranded map[[2]string]float64 // of them, by pool and cause

	pools    map[string]*plan.Pool
	pods     map[string]*plan.Pod // by key
	requests map[string]requests  // of each node's pods together
	kinds    []*plan.Pod          // one of each kind of pending pods
	layouts  map[string]layout
	parts    []part // of the node that is added
}

type requests struct{ cpu, memory int64 }

// part of a GPU: a MIG instance, a pod's share of a GPU without MIG, the free rest of such a GPU, or slices in no
// instance.
type part struct {
	gpu     *plan.GPU
	use     use
	cause   cause
	size    float64     // in GPUs, by compute
	memory  float64     // of a GPU without MIG
	profile mig.Profile // of an instance
	table   *mig.Table  // the profile's
	pod     string      // that it is allocated to
	busy    sample.Value
}

func newSurvey(s *plan.Snapshot) *survey {
	v := &survey{Snapshot: s, rows: map[key]*[uses]float64{}, stranded: map[[2]string]float64{}, pools: map[string]*plan.Pool{},
		pods: make(map[string]*plan.Pod, len(s.Pods)), requests: make(map[string]requests, len(s.Nodes)), layouts: map[string]layout{}}
	for i := range s.Pools {
		v.pools[s.Pools[i].Name] = &s.Pools[i]
	}
	seen := map[string]bool{}
	for i := range s.Pods {
		p := &s.Pods[i]
		v.pods[p.Key()] = p
		switch {
		case p.Node != "":
			r := v.requests[p.Node]
			v.requests[p.Node] = requests{r.cpu + max(p.CPUMilli, 0), r.memory + max(p.MemoryMi, 0)}
		case p.Unreadable == "" && !p.Demand.Zero():
			kind := fmt.Sprintf("%s|%s|%d|%d|%q|%q|%q|%q", p.Demand, p.Demand.Vendor, p.CPUMilli, p.MemoryMi, p.NodeSelector, p.Affinity, p.Tolerations, p.Volumes)
			if !seen[kind] {
				seen[kind] = true
				v.kinds = append(v.kinds, p)
			}
		}
	}
	for i := range s.Nodes {
		v.node(&s.Nodes[i])
	}
	return v
}

// node adds a node's GPUs. A node of a pool that shows no GPUs yet has those of its pool's template: the node exists
// and costs money.
func (v *survey) node(n *plan.Node) {
	gpus, at := n.GPUs, v.nodeUse(n)
	if pool := v.pools[n.Pool]; len(gpus) == 0 && pool != nil {
		gpus = pool.Template.GPUs
		if at != booting {
			at = unready
		}
	}
	v.parts = v.parts[:0]
	for i := range gpus {
		v.parts = v.split(v.parts, n, &gpus[i], at)
	}
	v.judge(n, v.parts)
	for i := range v.parts {
		v.add(n, &v.parts[i])
	}
}

// nodeUse is free for a node in service.
func (v *survey) nodeUse(n *plan.Node) use {
	young := !n.ReadyAt.IsZero()
	if pool := v.pools[n.Pool]; pool != nil {
		young = v.Now.Sub(n.Created) < max(plan.DefaultPolicy().NodeOverdue, 3*min(pool.ReadyAfter, 1000*time.Hour))
	}
	switch {
	case young && (!n.Ready || len(n.GPUs) == 0):
		return booting
	case !n.Ready:
		return unready
	case n.Drain != nil, n.Cordoned && n.CordonedBy == "":
		return cordoned
	case n.CordonedBy != "":
		return repartitioning // the whole node is out of use for one GPU
	}
	return free
}

// split appends the parts of a GPU. A GPU with unknown allocation or layout is one part.
func (v *survey) split(parts []part, n *plan.Node, c *plan.GPU, at use) []part {
	l := v.layoutOf(c)
	known := c.AllocationKnown && l.possible
	switch {
	case c.Health == gpu.Sick:
		at = sick
	case at == booting || at == unready:
	case !known:
		at = unknown
	case n.Operation != nil && n.Operation.GPU == c.Index:
		at = repartitioning
	}
	if !known {
		return append(parts, part{gpu: c, use: at, size: 1})
	}
	if !c.MIG {
		return v.shares(parts, c, at)
	}
	rest, whole := l.table.ComputeSlices(), float64(l.table.ComputeSlices())
	for i := range c.Instances {
		in := &c.Instances[i]
		p := part{gpu: c, use: at, size: float64(in.Profile.Compute) / whole, profile: in.Profile, table: l.table}
		p.allocate(in.AllocatedTo, in.Busy)
		parts = append(parts, p)
		rest -= in.Profile.Compute
	}
	if at != free {
		return append(parts, part{gpu: c, use: at, size: float64(rest) / whole})
	}
	return append(parts, part{gpu: c, use: fragmented, cause: unpartitioned, size: float64(l.addable) / whole},
		part{gpu: c, use: fragmented, cause: odd, size: float64(rest-l.addable) / whole})
}

// shares appends every pod's share of a GPU without MIG, and the free rest. The shares are the fractions that the pods
// request, if all request one and they fit together; else they are equal.
func (v *survey) shares(parts []part, c *plan.GPU, at use) []part {
	n := len(c.AllocatedTo)
	if n == 0 {
		return append(parts, part{gpu: c, use: at, size: 1, memory: 1})
	}
	sizes := make([]part, n)
	rest := part{gpu: c, use: at, size: 1, memory: 1}
	stated := true
	for i, key := range c.AllocatedTo {
		pod := v.pods[key]
		stated = stated && pod != nil && pod.Demand.Fraction != nil
		if stated {
			sizes[i].size, sizes[i].memory, stated = fractionOf(pod.Demand.Fraction, c.Model.MemoryMiB)
		}
		rest.size, rest.memory = rest.size-sizes[i].size, rest.memory-sizes[i].memory
	}
	equal := !stated || rest.size < -rounding || rest.memory < -rounding
	for i, key := range c.AllocatedTo {
		p := part{gpu: c, use: at, size: sizes[i].size}
		if equal {
			p.size = 1 / float64(n)
		}
		p.allocate(key, c.Busy)
		parts = append(parts, p)
	}
	if !equal && rest.size > rounding {
		parts = append(parts, rest)
	}
	return parts
}

// fractionOf returns the compute and the memory of a fraction, as shares of a GPU with so much memory. If only one of
// them is stated, the other equals it. ok is false if none is stated, or more than a GPU.
func fractionOf(f *demand.Fraction, gpuMiB int) (compute, memory float64, ok bool) {
	compute, memory = float64(max(f.CoreMilli, 0))/1000, float64(max(f.MemoryMilli, 0))/1000
	if gpuMiB > 0 {
		memory = max(memory, float64(f.MemoryMiB)/float64(gpuMiB))
	}
	compute, memory = cmp.Or(compute, memory), cmp.Or(memory, compute)
	return compute, memory, compute > 0 && compute <= 1 && memory <= 1
}

// allocate gives a part to a pod. On a GPU out of service the part keeps its use.
func (p *part) allocate(pod string, measured sample.Value) {
	p.pod = pod
	if pod != "" && p.use != sick && p.use != unready && p.use != booting {
		p.use, p.busy = unmeasured, measured.Fresh(maxBusyAge)
	}
}

// add counts a part.
func (v *survey) add(n *plan.Node, p *part) {
	if p.size == 0 {
		return
	}
	k := key{pool: n.Pool, model: p.gpu.Model.Name}
	if p.pod != "" {
		k.namespace, _, _ = strings.Cut(p.pod, "/")
		if pod := v.pods[p.pod]; pod != nil {
			k.tenant = pod.Tenant
		}
	}
	row := v.rows[k]
	if row == nil {
		row = &[uses]float64{}
		v.rows[k] = row
	}
	ratio, known := p.busy.Get()
	switch {
	case p.cause != noCause:
		v.stranded[[2]string{n.Pool, causeWords[p.cause]}] += p.size
		row[p.use] += p.size
	case !known || ratio < 0 || ratio > 1.01: // no measurement; a ratio may be rounded
		row[p.use] += p.size
	default:
		ratio = min(ratio, 1)
		row[busy] += p.size * ratio
		if ratio < idleBelow {
			row[idle] += p.size * (1 - ratio)
		} else {
			row[slack] += p.size * (1 - ratio)
		}
	}
}

// layout is what is known of a GPU's instances together.
type layout struct {
	table    *mig.Table
	possible bool // a GPU can have them
	addable  int  // compute slices that further instances can have; an upper bound if placements are unknown
}

// layoutOf is computed once for each layout: fleets have few.
func (v *survey) layoutOf(c *plan.GPU) layout {
	if !c.MIG || len(c.AllocatedTo) > 0 {
		return layout{possible: !c.MIG && len(c.Instances) == 0}
	}
	placed, l := true, make(mig.Layout, len(c.Instances))
	for i := range c.Instances {
		l[i], placed = c.Instances[i].Placement, placed && c.Instances[i].Placed
	}
	id := fmt.Sprint(c.Model.Name, placed, l)
	known, ok := v.layouts[id]
	if !ok {
		known = newLayout(v.Tables, c.Model.Name, mig.NewLayout(l...), placed)
		v.layouts[id] = known
	}
	return known
}

func newLayout(tables mig.Tables, model string, l mig.Layout, placed bool) layout {
	t, ok := tables.ForModel(model)
	switch {
	case !ok:
		return layout{}
	case placed:
		ok = t.Legal(l) == nil
	default:
		_, ok = t.Arrange(nil, mig.Counts(l))
	}
	out := layout{table: t, possible: ok}
	left, _ := t.FreeSlices(l)
	for _, m := range t.Maximal() {
		if !slices.ContainsFunc(l, func(p mig.Placement) bool {
			return placed && !slices.Contains(m, p) || m.Count(p.Profile) < l.Count(p.Profile)
		}) {
			lost, _ := t.FreeSlices(m)
			out.addable = max(out.addable, left-lost)
		}
	}
	return out
}
