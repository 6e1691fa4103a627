package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// kind is a group of pods that do not differ in anything the planner reads.
type kind struct {
	pod  *Pod // one of them
	text string
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
	// blocked is what prevented repartitions for the first pod of the kind that
	// could not be served; explained is set once it is known.
	blocked   blockers
	explained bool
	// grouping and spreads are what its topology rules know of the nodes.
	grouping *grouping
	spreads  map[Rule]*spreadPlaces
	// failedTrial is the number of the trial in which nothing could be reclaimed
	// for it, see world.failedTrial.
	failedTrial int
	// ruledOut is a node from which topology rules alone keep it.
	ruledOut string
	// bounded is set when a GPU could be repartitioned but MaxActionsPerReconcile
	// is reached.
	bounded bool
}

type verdictOnce uint8 // 0 for not known yet

const (
	fits verdictOnce = iota + 1
	fitsNot
	fitsUntainted // but for its taints
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
func (w *world) kindKey(p *Pod) string {
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
		for _, k := range sortedKeys(p.NodeSelector) {
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
		fmt.Fprintf(&b, "|d%q,%q,%d", s.Key, s.Group, s.MaxSkew)
	}
	for _, g := range p.Groups {
		if w.ruledOn[g] {
			fmt.Fprintf(&b, "|g%q", g)
		}
	}
	if len(p.Apart)+len(p.Near) > 0 {
		fmt.Fprintf(&b, "|r%q%q", p.Apart, p.Near)
	}
	if len(p.Tolerations) > 0 {
		fmt.Fprintf(&b, "|t%q", p.Tolerations)
	}
	return b.String()
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// requestText is a demand as text: "3g.40gb", "2 × 1g.10gb + 1 × 3g.40gb", "2
// GPUs".
func requestText(p *Pod) string {
	d := p.Demand
	var parts []string
	switch {
	case d.GPUs == 1:
		parts = append(parts, "a GPU")
	case d.GPUs > 1:
		parts = append(parts, fmt.Sprintf("%d GPUs", d.GPUs))
	}
	for _, i := range d.MIG {
		if i.Count == 1 {
			parts = append(parts, i.Name)
			continue
		}
		parts = append(parts, fmt.Sprintf("%d × %s", i.Count, i.Name))
	}
	switch f := d.Fraction; {
	case f == nil:
	case f.CoreMilli >= 1000 && f.MemoryMilli >= 1000: // as dialects give whole GPUs
		parts = append(parts, "all of "+count(max(f.GPUs, 1), "GPU"))
	default:
		parts = append(parts, "part of a GPU")
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " + ")
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
		n += int(math.Ceil(fractionOfGPU(f)*gpuSlices)) * clampCount(max(f.GPUs, 1))
	}
	return n
}

// clampCount prevents overflows; no pod requests more.
func clampCount(n int) int { return min(max(n, 0), 1<<20) }

// referenceMemoryMiB is the GPU memory against which a fraction in MiB is measured
// where no GPU is known.
const referenceMemoryMiB = 80 * 1024

func fractionOfGPU(f *demand.Fraction) float64 { return fractionOf(f, referenceMemoryMiB) }

// fractionOf is the larger of a fraction's shares of a GPU with gpuMiB of
// memory, at most 1.
func fractionOf(f *demand.Fraction, gpuMiB int) float64 {
	core := float64(max(f.CoreMilli, f.MemoryMilli, 1)) / 1000
	memory := float64(max(f.MemoryMiB, 0)) / float64(gpuMiB)
	return min(max(core, memory), 1)
}

// waitCost is the cost of a pending pod: GPU equivalents × hours × the policy's
// price, weighed by urgency.
func (w *world) waitCost(k *kind, priority int32, d time.Duration) float64 {
	return w.policy.WaitCostPerHour * k.eq * urgency(priority) * max(d, 0).Hours()
}

// urgency weighs costs by priority: a tenfold priority adds a third.
func urgency(priority int32) float64 { return 1 + math.Log10(1+float64(max(priority, 0)))/3 }

// sameAge is the resolution of a pending pod's age. Pods of a burst count as
// equally old and are served largest first, which fills added nodes best.
const sameAge = time.Minute

// orderPending sorts the most urgent first: priority, then age to the minute,
// then size, then age and name.
func orderPending(pods []*Pod) {
	type keyed struct {
		*Pod
		slices int
		minute int64
	}
	all := make([]keyed, len(pods))
	for i, p := range pods {
		all[i] = keyed{p, slicesOf(p), p.PendingSince.Truncate(sameAge).UnixNano()}
	}
	slices.SortFunc(all, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.minute, b.minute), cmp.Compare(b.slices, a.slices),
			a.PendingSince.Compare(b.PendingSince), byKey(a.Pod, b.Pod))
	})
	for i := range all {
		pods[i] = all[i].Pod
	}
}

// classify groups nodes that are equal to selectors and tolerations: the same
// taints, and the same values of the labels that pending pods mention. Nodes
// that differ in other labels only are one class.
func (w *world) classify() {
	keys := w.requestedLabels()
	ids := map[string]int{}
	var b []byte
	class := func(labels map[string]string, taints []Taint) int {
		b = b[:0]
		for _, k := range keys {
			if v, ok := labels[k]; ok {
				b = strconv.AppendQuote(b, v)
			}
			b = append(b, ',')
		}
		for _, t := range taints {
			b = strconv.AppendQuote(b, t.Key)
			b = strconv.AppendQuote(b, t.Value)
			b = strconv.AppendQuote(b, t.Effect)
		}
		id, ok := ids[string(b)]
		if !ok {
			id = len(ids)
			ids[string(b)] = id
		}
		return id
	}
	for i := range w.nodes {
		w.nodes[i].class = class(w.labelsAndTaints(&w.nodes[i]))
	}
	for i := range w.pools {
		t := &w.pools[i].Template
		w.pools[i].class = class(t.Labels, t.Taints)
	}
	w.classes = len(ids)
	for i := range w.kinds {
		w.kinds[i].static = make([]verdictOnce, w.classes)
	}
}

// requestedLabels lists the labels that any kind's selector or affinity
// mentions.
func (w *world) requestedLabels() []string {
	var keys []string
	for i := range w.kinds {
		p := w.kinds[i].pod
		keys = append(keys, sortedKeys(p.NodeSelector)...)
		for _, term := range p.Affinity {
			for _, r := range term {
				keys = append(keys, r.Key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// admits reports whether selectors and taints let the kind onto a node.
func (w *world) admits(k *kind, n *nodeState) bool {
	if k.static == nil { // a kind added after nodes were classified
		labels, taints := w.labelsAndTaints(n)
		_, out := untolerated(k.pod, taints)
		return !out && fitsLabels(k.pod, labels)
	}
	if k.static[n.class] == 0 {
		labels, taints := w.labelsAndTaints(n)
		k.judge(n.class, labels, taints)
	}
	return k.static[n.class] == fits
}

// admitsTainted reports whether selectors let the kind onto a node, taints apart.
func (w *world) admitsTainted(k *kind, n *nodeState) bool {
	if k.static == nil {
		labels, _ := w.labelsAndTaints(n)
		return fitsLabels(k.pod, labels)
	}
	return w.admits(k, n) || k.static[n.class] == fitsUntainted
}

// admitsNew reports whether selectors and taints let the kind onto a new node
// of a pool.
func (k *kind) admitsNew(p *poolState) bool {
	if k.static == nil {
		_, out := untolerated(k.pod, p.Template.Taints)
		return !out && fitsLabels(k.pod, p.Template.Labels)
	}
	if k.static[p.class] == 0 {
		k.judge(p.class, p.Template.Labels, p.Template.Taints)
	}
	return k.static[p.class] == fits
}

func (k *kind) judge(class int, labels map[string]string, taints []Taint) {
	_, out := untolerated(k.pod, taints)
	switch {
	case !fitsLabels(k.pod, labels):
		k.static[class] = fitsNot
	case out:
		k.static[class] = fitsUntainted
	default:
		k.static[class] = fits
	}
}

// labelsAndTaints are those of a node once it is ready. An upcoming node has its
// pool's template's: start-up taints are removed, and the device plugin and GFD add
// their labels.
func (w *world) labelsAndTaints(n *nodeState) (map[string]string, []Taint) {
	if !n.virtual && n.tier != tierNode {
		return n.Labels, n.Taints
	}
	template := &w.pools[n.pool].Template
	if n.virtual {
		return template.Labels, template.Taints
	}
	labels := make(map[string]string, len(n.Labels)+len(template.Labels))
	for k, v := range template.Labels {
		labels[k] = v
	}
	for k, v := range n.Labels {
		labels[k] = v
	}
	return labels, template.Taints
}

// fitsLabels reports whether the pod's node selector and required node affinity
// admit a node with these labels.
func fitsLabels(pod *Pod, labels map[string]string) bool {
	// All must hold, so the map's order has no effect.
	for k, want := range pod.NodeSelector {
		if have, ok := labels[k]; !ok || have != want {
			return false
		}
	}
	if len(pod.Affinity) == 0 {
		return true
	}
	for _, term := range pod.Affinity {
		if fitsTerm(term, labels) {
			return true
		}
	}
	return false
}

// fitsTerm reports whether all requirements hold. An empty term matches
// nothing, as in Kubernetes.
func fitsTerm(term NodeTerm, labels map[string]string) bool {
	for _, r := range term {
		if !fitsRequirement(r, labels) {
			return false
		}
	}
	return len(term) > 0
}

func fitsRequirement(r NodeRequirement, labels map[string]string) bool {
	have, ok := labels[r.Key]
	in := false
	for _, v := range r.Values {
		in = in || v == have
	}
	switch r.Operator {
	case "In":
		return ok && in
	case "NotIn":
		return !ok || !in
	case "Exists":
		return ok
	case "DoesNotExist":
		return !ok
	case "Gt", "Lt":
		return ok && len(r.Values) == 1 && compareNumbers(r.Operator, have, r.Values[0])
	default: // an unknown operator admits nothing
		return false
	}
}

func compareNumbers(operator, have, want string) bool {
	h, err1 := strconv.ParseInt(have, 10, 64)
	w, err2 := strconv.ParseInt(want, 10, 64)
	if err1 != nil || err2 != nil {
		return false
	}
	if operator == "Gt" {
		return h > w
	}
	return h < w
}

// untolerated returns the first taint that keeps the pod out, false for none.
func untolerated(pod *Pod, taints []Taint) (Taint, bool) {
	for _, t := range taints {
		if t.Effect != "NoSchedule" && t.Effect != "NoExecute" {
			continue
		}
		if !tolerated(pod.Tolerations, t) {
			return t, true
		}
	}
	return Taint{}, false
}

func tolerated(tolerations []Toleration, t Taint) bool {
	for _, o := range tolerations {
		if o.Effect != "" && o.Effect != t.Effect {
			continue
		}
		if o.Key != t.Key && !(o.Key == "" && o.Operator == "Exists") {
			continue
		}
		if o.Operator == "Exists" || o.Value == t.Value {
			return true
		}
	}
	return false
}

// Admits reports whether a pod's node selector, required affinity and
// tolerations let it onto a node with these labels and taints, resources aside.
func Admits(pod Pod, labels map[string]string, taints []Taint) bool {
	_, out := untolerated(&pod, taints)
	return !out && fitsLabels(&pod, labels)
}
