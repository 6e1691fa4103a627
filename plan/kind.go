package plan

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan/pack"
)

// kind is a group of pods that do not differ in anything the planner reads.
type kind struct {
	pod  *Pod    // one of them
	text string  // their requests
	eq   float64 // GPU equivalents
	// static caches per class of nodes whether selectors and taints admit the pod.
	static []verdictOnce
	// requests caches the demand in each model's profiles.
	requests []profileRequest
	// unserved is the number of pods of the kind that are not served yet.
	unserved int
	// usable, upcoming and repartitions index the nodes that may serve it: as they
	// are, once they are ready, and with a repartitioned GPU.
	usable, upcoming, repartitions index
	// blocked and ruledOut are about the first pod of the kind that could not be served:
	// what prevented repartitions, and what kept it from free capacity. explained is set
	// once they are known.
	blocked   causes
	ruledOut  string
	explained bool
	// groups is the set of its pods' groups. spreads are the nodes as its topology rules see
	// them. placed is set if rules concern it that are about more than hosts.
	groups  map[string]bool
	spreads map[Rule]*spreadPlaces
	placed  bool
	// failedTrial is the number of the trial in which nothing could be reclaimed
	// for it, see reclaimOption.
	failedTrial int
	// bounded is set when a GPU could be repartitioned but MaxActionsPerReconcile
	// is reached.
	bounded bool
}

type verdictOnce uint8 // 0 for not known yet

const (
	fits verdictOnce = iota + 1
	fitsNot
	fitsSelectors // selector and affinity match; taints, volumes or devices do not
)

// profileRequest is a MIG demand in one model's profiles.
type profileRequest struct {
	model  string
	ok     bool
	id     int // the same for equal counts on the same model
	counts []mig.Count
}

// kindKey is equal for pods that do not differ in anything placement depends
// on. Groups that no rule selects are left out.
func (t *topology) kindKey(p *Pod) string {
	var b strings.Builder
	d := p.Demand
	fmt.Fprintf(&b, "%d|%s|%d|%d", d.GPUs, d.Vendor, p.CPUMilli, p.MemoryMi)
	for _, i := range d.MIG {
		fmt.Fprintf(&b, "|%q*%d", i.Name, i.Count)
	}
	if d.Fraction != nil {
		fmt.Fprintf(&b, "|f%d,%d,%d,%d", d.Fraction.CoreMilli, d.Fraction.MemoryMiB, d.Fraction.MemoryMilli, d.Fraction.GPUs)
	}
	if len(p.NodeSelector) > 0 {
		b.WriteString("|s")
		for _, k := range slices.Sorted(maps.Keys(p.NodeSelector)) {
			fmt.Fprintf(&b, "%q=%q,", k, p.NodeSelector[k])
		}
	}
	if len(p.Affinity) > 0 {
		fmt.Fprintf(&b, "|a%q", p.Affinity)
	}
	for _, o := range p.Others {
		fmt.Fprintf(&b, "|o%q=%d", o.Name, o.Amount)
	}
	for _, s := range p.Spread {
		fmt.Fprintf(&b, "|d%q,%q,%d,%d,%t,%t", s.Key, s.Group, s.MaxSkew, s.MinDomains, s.IgnoreAffinity, s.HonorTaints)
	}
	for _, r := range t.about(p) {
		b.WriteString("|g" + strconv.Itoa(r.id)) // there can be hundreds
	}
	if len(p.Apart)+len(p.Near) > 0 {
		fmt.Fprintf(&b, "|r%q%q", p.Apart, p.Near)
	}
	if len(p.Tolerations) > 0 {
		fmt.Fprintf(&b, "|t%q", p.Tolerations)
	}
	if len(p.Data) > 0 {
		fmt.Fprintf(&b, "|c%q", p.Data)
	}
	if len(p.Volumes)+len(p.Devices)+len(p.HostPorts) > 0 {
		fmt.Fprintf(&b, "|v%q|d%q|h%q", p.Volumes, p.Devices, p.HostPorts)
	}
	return b.String()
}

// gpuSlices is how many compute slices count as one GPU where no product's table
// applies.
const gpuSlices = 7

// slicesOf returns a demand in compute slices of a seven-slice GPU.
func slicesOf(p *Pod) int {
	n := clampCount(p.Demand.GPUs) * gpuSlices
	for _, i := range p.Demand.MIG {
		n += clampCount(i.Count) * min(max(i.Profile.Compute, 0), gpuSlices)
	}
	if f := p.Demand.Fraction; f != nil {
		n += int(math.Ceil(fractionOf(f, referenceMemoryMiB)*gpuSlices)) * clampCount(max(f.GPUs, 1))
	}
	return n
}

// clampCount prevents overflows; no pod requests more.
func clampCount(n int) int { return min(max(n, 0), 1<<20) }

// referenceMemoryMiB is the GPU memory against which a fraction in MiB is measured
// where no GPU is known.
const referenceMemoryMiB = 80 * 1024

// fractionOf is the larger of a fraction's shares of a GPU with gpuMiB of
// memory, at most 1.
func fractionOf(f *demand.Fraction, gpuMiB int) float64 {
	core := float64(max(f.CoreMilli, f.MemoryMilli, 1)) / 1000
	memory := float64(max(f.MemoryMiB, 0)) / float64(gpuMiB)
	return min(max(core, memory), 1)
}

// waitCost is the cost of a pending pod: GPU equivalents × hours × the policy's
// price, weighed by urgency.
func (policy *Policy) waitCost(k *kind, priority int32, d time.Duration) float64 {
	return policy.WaitCostPerHour * k.eq * urgency(priority) * max(d, 0).Hours()
}

// urgency weighs costs by priority: a tenfold priority adds a third.
func urgency(priority int32) float64 { return 1 + math.Log10(1+float64(max(priority, 0)))/3 }

// sameAge is the resolution of a pending pod's age. Pods of a burst count as
// equally old and are served largest first, which fills added nodes best.
const sameAge = time.Minute

// orderPending sorts the most urgent first: priority, then age to the minute,
// then size, then age and name.
func orderPending(pods []*Pod) {
	slices.SortFunc(pods, func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.PendingSince.Truncate(sameAge).Compare(b.PendingSince.Truncate(sameAge)),
			cmp.Compare(slicesOf(b), slicesOf(a)), a.PendingSince.Compare(b.PendingSince), byKey(a, b))
	})
}

// Weights of rank, each more than any node's free capacity: of a dataset that the node has,
// and of a free instance that the kind requests. A node with few such instances is used
// first, so that nodes with many keep them for pods that request several.
const (
	dataFirst    = 1 << 40
	anotherAlike = 1 << 24
)

// cached returns those of the kind's datasets that a node with these labels has.
func (k *kind) cached(labels map[string]string) []string {
	var out []string
	for _, key := range k.pod.Data {
		if labels[key] == "true" {
			out = append(out, key)
		}
	}
	return out
}

// rank orders the nodes that can serve a kind equally soon: those with more of its
// datasets first, then those with the fewest free instances of its profiles, then those
// with the least free capacity.
func (ms *models) rank(k *kind, n *nodeState) int {
	rank := n.freeSlices()
	requested, _ := ms.requestOf(k, n.capacity.model)
	for _, c := range requested {
		rank += anotherAlike * mig.CountOf(n.capacity.free, c.Profile)
	}
	if len(k.pod.Data) > 0 {
		rank -= dataFirst * len(k.cached(n.place().labels))
	}
	return rank
}

// dataText is ", which has dataset.gpuscale.io/a", empty for a node without data of
// the kind.
func (k *kind) dataText(n *nodeState) string {
	if len(k.pod.Data) == 0 {
		return ""
	}
	if all := k.cached(n.place().labels); len(all) > 0 {
		return ", which has " + strings.Join(all, ", ")
	}
	return ""
}

type answer struct {
	pack.Answer
	ok bool
}

// requestOf translates the kind's MIG demand into a model's profiles; false
// where the model has no such profile.
func (ms *models) requestOf(k *kind, model string) ([]mig.Count, bool) {
	r := ms.request(k, model)
	return r.counts, r.ok
}

func (ms *models) request(k *kind, model string) profileRequest {
	if len(k.pod.Demand.MIG) == 0 {
		return profileRequest{ok: true}
	}
	for i := range k.requests {
		if k.requests[i].model == model {
			return k.requests[i]
		}
	}
	n := profileRequest{model: model, ok: true}
	for _, i := range k.pod.Demand.MIG {
		p, ok := ms.profile(model, i.Name)
		n.ok = n.ok && ok
		n.counts = added(n.counts, p, clampCount(i.Count))
	}
	key, known := question(0, model, nil, nil, n.counts, nil), false
	if n.id, known = ms.requestIDs[key]; !known { // pods of many kinds share them
		n.id = len(ms.requestIDs)
		ms.requestIDs[key] = n.id
	}
	k.requests = append(k.requests, n)
	return n
}

// table is the tables' ForModel, computed once for each model.
func (ms *models) table(model string) (*mig.Table, bool) {
	t, known := ms.tableOf[model]
	if !known {
		t, _ = ms.tables.ForModel(model)
		ms.tableOf[model] = t
	}
	return t, t != nil
}

// profile is the profile of a name on a model. Where the model has none of this name, it is a placeholder with negative
// memory slices, different for each name: GPUs of another model on the same node may have such instances.
func (ms *models) profile(model, name string) (mig.Profile, bool) {
	if t, ok := ms.table(model); ok {
		if p, ok := t.Exact(name); ok {
			return p, true
		}
	}
	n, _ := mig.ParseName(name) // Check refuses others
	return mig.Profile{Compute: n.Compute, Memory: -n.GB, Attrs: n.Attrs}, false
}

// furtherDemand adds up, for each pool, the instances that further pending pods could use there.
// While a gang is served these are its remaining members, if they request any. More pods of one
// kind than a GPU has slices make no difference.
func (w *world) furtherDemand() [][]mig.Count {
	switch {
	case w.serving.rest != nil:
		return w.serving.rest
	case w.further == nil:
		w.further = make([][]mig.Count, len(w.pools))
		for _, k := range w.kinds {
			w.addDemand(w.further, k, min(k.unserved, gpuSlices))
		}
	}
	return w.further
}

// demandOf is the demand of pending pods, nil where none of them requests instances.
func (w *world) demandOf(pending []int) (out [][]mig.Count) {
	for _, i := range pending {
		if k := w.pending[i].kind; len(k.pod.Demand.MIG) > 0 {
			if out == nil {
				out = make([][]mig.Count, len(w.pools))
			}
			w.addDemand(out, k, 1)
		}
	}
	return out
}

// addDemand adds n pods of a kind to the pools whose GPUs may be repartitioned for them.
func (w *world) addDemand(out [][]mig.Count, k *kind, n int) {
	if n <= 0 || len(k.pod.Demand.MIG) == 0 {
		return
	}
	for i, p := range w.pools {
		if !p.MIG.Repartition || !p.fresh.admits(k) {
			continue
		}
		requested, ok := w.models.requestOf(k, p.fresh.model)
		if !ok {
			continue
		}
		for _, c := range requested {
			out[i] = added(out[i], c.Profile, c.N*n)
		}
	}
}
