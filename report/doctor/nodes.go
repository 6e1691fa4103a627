package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

var nodeChecks = []Check{
	{
		ID: "device-plugin-missing", Title: "Nodes with cards offer them", Run: devicePluginMissing,
		Fault: "A node is labelled as one with GPUs and has none to give.",
		Means: "No pod can have its cards; they cost all the same.",
		Looks: []Source{Nodes, Pods, ResourceSlices},
	},
	{
		ID: "gfd-labels-missing", Title: "Nodes say which product they have", Run: productMissing,
		Fault: "A node offers `nvidia.com/*` and has no label `nvidia.com/gpu.product`.",
		Means: "Nobody knows the model of its cards: pods that ask for one do not come there, no layout is planned, quotas by model do not count it.",
		Looks: []Source{Nodes},
	},
	{
		ID: "mig-config-failed", Title: "Layouts were applied", Run: migFailed,
		Fault: "mig-manager, or our agent, says that it failed to cut a node's cards.",
		Means: "The node offers another layout than was planned, or none.",
		Looks: []Source{Nodes, Pods},
	},
	{
		ID: "mig-manager-wedged", Title: "mig-manager gets done", Run: migWedged,
		Fault: "`nvidia.com/mig.config.state` has been `pending` or `rebooting` for more than ten minutes.",
		Means: "The node offers no GPU, and mig-manager does not begin again by itself.",
		Looks: []Source{Nodes, Pods},
	},
	{
		ID: "orphan-cordon", Title: "Cordons of ours have an operation behind them", Run: orphanCordon,
		Fault: "A node is cordoned by us, and what it was cordoned for is over, given up or nobody's.",
		Means: "No pod comes there until somebody opens it.",
		Looks: []Source{Nodes, Pools, Deployments, DaemonSets},
	},
	{
		ID: "dra-and-device-plugin", Title: "Cards are offered by one way", Run: twoWays,
		Fault: "A node's cards are in ResourceSlices of `gpu.nvidia.com` and in its allocatable.",
		Means: "Two pods can be given the same card.",
		Looks: []Source{Nodes, ResourceSlices},
	},
	{
		ID: "profile-impossible", Title: "Pods ask for profiles that can be had", Run: profileImpossible,
		Fault: "A pod waits for a MIG profile that no pool's card can be cut into and no node offers.",
		Means: "It waits for ever.",
		Looks: []Source{Pods, Nodes, Pools},
	},
}

// driverGPU is the DRA driver that offers whole cards and instances.
const driverGPU = "gpu.nvidia.com"

// claimed are the nodes whose cards are offered by DRA, with how many devices.
func (l *look) claimed() map[string]int {
	out := map[string]int{}
	for i := range l.f.ResourceSlices {
		if s := &l.f.ResourceSlices[i]; s.Spec.Driver == driverGPU && s.Spec.NodeName != "" {
			out[s.Spec.NodeName] += len(s.Spec.Devices)
		}
	}
	return out
}

// offers reports whether a node gives accelerators by any dialect we know.
func offers(n *corev1.Node) bool {
	for name, q := range n.Status.Allocatable {
		if q.Sign() <= 0 {
			continue
		}
		if d, err := demand.FromResources(map[string]int64{string(name): 1}); err == nil && !d.Zero() {
			return true
		}
	}
	return cards(n) > 0
}

// podOn returns a pod on a node that runs an image, nil for none.
func (l *look) podOn(node, image_ string) *corev1.Pod {
	for i := range l.f.Pods {
		p := &l.f.Pods[i]
		if p.Spec.NodeName == node && slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return strings.Contains(image(c.Image), image_) }) {
			return p
		}
	}
	return nil
}

func devicePluginMissing(l *look) {
	nodes := l.nodes()
	known := l.use(ResourceSlices)
	l.use(Pods)
	claimed := l.claimed()
	for i := range nodes {
		n := &nodes[i]
		_, cut := n.Annotations[annotationRecord]
		if n.Labels[labelPresent] != "true" || !isReady(n) || offers(n) || changing(n) || cut || !known || claimed[n.Name] > 0 {
			continue
		}
		f := Finding{
			Seen:  fmt.Sprintf("label %s is true, and allocatable has no nvidia.com/gpu and no nvidia.com/mig-*", labelPresent),
			Means: "no pod can have its cards; they cost all the same",
			Fix:   "See whether the device plugin runs there (its taints, the label nvidia.com/gpu.deploy.device-plugin) and finds the driver.",
		}
		switch p := l.podOn(n.Name, "k8s-device-plugin"); {
		case n.Labels["nvidia.com/gpu.deploy.device-plugin"] == "false":
			f.Seen += "; label nvidia.com/gpu.deploy.device-plugin is false"
			f.Fix = "Take that label away: it keeps the device plugin off the node."
			f.Commands = []string{l.kubectl("label", "node", n.Name, "nvidia.com/gpu.deploy.device-plugin-")}
		case p != nil:
			f.Seen += fmt.Sprintf("; the device plugin's pod is %s/%s", p.Namespace, p.Name)
			f.Commands = []string{l.in(p.Namespace, "logs", p.Name, "--all-containers", "--tail=50")}
		default:
			f.Commands = []string{l.kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName="+n.Name)}
		}
		l.lacks(n, f)
	}
}

func productMissing(l *look) {
	nodes := l.nodes()
	for i := range nodes {
		n := &nodes[i]
		if cards(n) == 0 || n.Labels[labelProduct] != "" {
			continue
		}
		l.lacks(n, Finding{
			Seen:     fmt.Sprintf("allocatable has %d of nvidia.com/*, and there is no label %s", cards(n), labelProduct),
			Means:    "nobody knows the model of its cards: pods that ask for one do not come there, no layout is planned, quotas by model do not count it",
			Fix:      "Run GPU feature discovery there (the GPU Operator, or the device plugin's chart with gfd.enabled), or label the node by hand.",
			Commands: []string{l.kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName="+n.Name)},
		})
	}
}

// Annotations of ours on nodes. TestNames holds them against those who write them.
const (
	annotationRecord = "gpuscale.io/repartition"
	annotationAgent  = "gpuscale.io/mig-agent"
)

// record is the part of an operation's record that is looked at.
type record struct {
	Config   string    `json:"config"`
	Started  time.Time `json:"started"`
	Deadline time.Time `json:"deadline"`
	Cordoned bool      `json:"cordoned"`
	Undo     *struct {
		Attempts int `json:"attempts"`
	} `json:"undo"`
}

// maxRecord bounds what an annotation is believed to say.
const maxRecord = 256 << 10

// recordOf reads a node's record; ok is false where there is none. One that cannot be
// read is an error.
func recordOf(n *corev1.Node) (r record, ok bool, err error) {
	text, ok := n.Annotations[annotationRecord]
	if !ok {
		return r, false, nil
	}
	if len(text) > maxRecord {
		return r, true, fmt.Errorf("it has %d bytes", len(text))
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return r, true, fmt.Errorf("it cannot be read: %w", err)
	}
	return r, true, nil
}

// migLogs writes the commands that show what mig-manager says on a node.
func (l *look) migLogs(node string) []string {
	namespace := "gpu-operator"
	if p := l.podOn(node, "k8s-mig-manager"); p != nil {
		return []string{l.in(p.Namespace, "logs", p.Name, "--all-containers", "--tail=100")}
	}
	for i := range l.f.Pods {
		if p := &l.f.Pods[i]; slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return strings.Contains(image(c.Image), "k8s-mig-manager") }) {
			namespace = p.Namespace
			break
		}
	}
	return []string{l.in(namespace, "get", "pods", "-l", "app=nvidia-mig-manager", "--field-selector", "spec.nodeName="+node)}
}

func migFailed(l *look) {
	nodes := l.nodes()
	l.use(Pods)
	for i := range nodes {
		n := &nodes[i]
		r, ours, _ := recordOf(n)
		f := Finding{Object: "Node " + n.Name, Means: "it offers another layout than was planned, or none"}
		if n.Labels[labelMIGState] == "failed" {
			f.Seen = fmt.Sprintf("label %s is failed, %s is %s", labelMIGState, labelMIGConfig, n.Labels[labelMIGConfig])
			f.Fix = "See what mig-manager says: a process that holds a card, a profile that the card has not, a card that wants a reset. It tries again when the label changes."
			f.Commands = l.migLogs(n.Name)
			if ours && (r.Undo == nil || r.Undo.Attempts < maxUndo) {
				f.Seen += "; the autoscaler is going back to the layout from before"
				l.warn(f)
			} else {
				l.fault(f)
			}
			continue
		}
		var answer struct {
			State   string `json:"state"`
			Message string `json:"message"`
		}
		text := n.Annotations[annotationAgent]
		if text == "" || len(text) > maxRecord || json.Unmarshal([]byte(text), &answer) != nil || answer.State != "failed" {
			continue
		}
		f.Seen = fmt.Sprintf("annotation %s says failed: %s", annotationAgent, answer.Message)
		f.Fix = "docs/mig.md, \"What can go wrong\", has what to do for each message."
		f.Commands = []string{l.kubectl("describe", "node", n.Name)}
		l.fault(f)
	}
}

// maxUndo is how often the autoscaler goes back before it leaves a node to people.
const maxUndo = 5

// wedged is how long mig-manager may take.
const wedged = 10 * time.Minute

func migWedged(l *look) {
	nodes := l.nodes()
	l.use(Pods)
	for i := range nodes {
		n := &nodes[i]
		if !changing(n) {
			continue
		}
		state := n.Labels[labelMIGState]
		since, known := l.pendingSince(n)
		if !known {
			l.cannot("since when %s is %s on node %s stands nowhere", labelMIGState, state, n.Name)
			continue
		}
		took := l.f.Now.Sub(since)
		if r, ours, err := recordOf(n); took < wedged || ours && err == nil && l.f.Now.Before(r.Deadline) {
			continue // or the autoscaler's own watch is not over yet
		}
		f := Finding{
			Object: "Node " + n.Name, Seen: fmt.Sprintf("label %s has been %s for at least %s", labelMIGState, state, took.Round(time.Minute)),
			Means: "it offers no GPU, and mig-manager does not begin again by itself",
			Fix:   "See what it waits for (a client that does not stop, usually), then make its pod anew: it reads the label when it starts.",
		}
		f.Commands = l.migLogs(n.Name)
		if p := l.podOn(n.Name, "k8s-mig-manager"); p != nil {
			f.Commands = append(f.Commands, l.in(p.Namespace, "delete", "pod", p.Name))
		}
		l.fault(f)
	}
}

// pendingSince says since when mig-manager has been at work, at the latest: by our own
// record of it, or by when whoever owns the label has last written to the node.
func (l *look) pendingSince(n *corev1.Node) (time.Time, bool) {
	if r, ours, err := recordOf(n); ours && err == nil && r.Config != "" && r.Config == n.Labels[labelMIGConfig] && !r.Started.IsZero() {
		return r.Started, true
	}
	var last time.Time
	for _, m := range n.ManagedFields {
		if m.Time != nil && m.FieldsV1 != nil && m.Subresource == "" && owns(m.FieldsV1.Raw, labelMIGState) && m.Time.After(last) {
			last = m.Time.Time
		}
	}
	return last, !last.IsZero()
}

// owns reports whether a set of managed fields has a label in it.
func owns(fields []byte, label string) bool {
	var set struct {
		Metadata struct {
			Labels map[string]json.RawMessage `json:"f:labels"`
		} `json:"f:metadata"`
	}
	if json.Unmarshal(fields, &set) != nil {
		return false
	}
	_, ok := set.Metadata.Labels["f:"+label]
	return ok
}

// late is how long after its deadline an operation is over.
const late = 5 * time.Minute

func orphanCordon(l *look) {
	nodes := l.nodes()
	poolsKnown := l.use(Pools)
	autoscalers := l.programs("autoscaler")
	pools := map[string]*v1alpha1.GPUNodePool{}
	for i := range l.f.Pools {
		pools[l.f.Pools[i].Name] = &l.f.Pools[i]
	}
	for i := range nodes {
		n := &nodes[i]
		why, marks := l.orphan(n, pools, poolsKnown, autoscalers)
		if why == "" {
			continue
		}
		words := []string{"annotate", "node", n.Name}
		for _, m := range marks {
			words = append(words, m+"-")
		}
		l.fault(Finding{
			Object: "Node " + n.Name, Seen: "it is cordoned by us (" + named(marks) + "), and " + why,
			Means: "no pod comes there until somebody opens it",
			Fix:   "Make sure that its cards are as they should be (docs/mig.md for a repartition), then take our marks away and open it.",
			Commands: []string{
				l.kubectl(words...), l.kubectl("uncordon", n.Name),
			},
		})
	}
}

// orphan says why a cordon of ours has nothing behind it, and the annotations that
// stand for it; empty where it has, or where there is none.
func (l *look) orphan(n *corev1.Node, pools map[string]*v1alpha1.GPUNodePool, poolsKnown bool, autoscalers []Program) (why string, marks []string) {
	if !n.Spec.Unschedulable {
		return "", nil
	}
	for _, m := range []string{v1alpha1.CordonAnnotation, v1alpha1.DrainAnnotation, annotationRecord} {
		if _, ok := n.Annotations[m]; ok {
			marks = append(marks, m)
		}
	}
	if len(marks) == 0 {
		return "", nil
	}
	if r, ours, err := recordOf(n); ours {
		switch {
		case err != nil:
			return "its record " + annotationRecord + " is not one: " + err.Error(), marks
		case r.Undo != nil && r.Undo.Attempts >= maxUndo:
			return fmt.Sprintf("going back to the layout from before was given up after %d attempts", r.Undo.Attempts), marks
		case r.Undo == nil && l.f.Now.After(r.Deadline.Add(late)):
			return "its repartition was to end at " + r.Deadline.UTC().Format(time.RFC3339), marks
		}
	}
	if d, ours, err := v1alpha1.DrainOf(n); ours {
		switch {
		case err != nil:
			return "its record of a drain is not one", marks
		case l.f.Now.After(d.Deadline.Add(late)):
			return "its drain was to end at " + d.Deadline.UTC().Format(time.RFC3339), marks
		}
	}
	pool := n.Labels[v1alpha1.NodePoolLabel]
	switch {
	case poolsKnown && pool == "":
		return "it is of no GPUNodePool, so that nobody comes back to it", marks
	case poolsKnown && pools[pool] == nil:
		return "its GPUNodePool " + pool + " is not there, so that nobody comes back to it", marks
	case len(autoscalers) == 0 && l.has(Deployments):
		return "there is no autoscaler of gpuscale", marks
	}
	return "", nil
}

func twoWays(l *look) {
	nodes := l.nodes()
	if !l.use(ResourceSlices) {
		return
	}
	if l.f.Absent[ResourceSlices] || len(l.f.ResourceSlices) == 0 {
		l.skip("no cards are offered by DRA")
		return
	}
	claimed := l.claimed()
	for i := range nodes {
		n := &nodes[i]
		if devices := claimed[n.Name]; devices > 0 && cards(n) > 0 {
			l.fault(Finding{
				Object: "Node " + n.Name, Seen: fmt.Sprintf("ResourceSlices of %s have %d devices of it, and allocatable has %d of nvidia.com/*", driverGPU, devices, cards(n)),
				Means:    "the scheduler counts each card twice: two pods can be given the same one",
				Fix:      "Choose one for this node: keep the device plugin away (label nvidia.com/gpu.deploy.device-plugin=false with the GPU Operator), or the DRA driver's kubelet plugin (its node selector).",
				Commands: []string{l.kubectl("get", "resourceslices", "--field-selector", "spec.nodeName="+n.Name)},
			})
		}
	}
}

func profileImpossible(l *look) {
	pods := l.pods()
	if !l.use(Nodes) || !l.use(Pools) {
		return
	}
	offered := map[string]bool{}
	for i := range l.f.Nodes {
		for name, q := range l.f.Nodes[i].Status.Capacity {
			if q.Sign() > 0 {
				offered[string(name)] = true
			}
		}
	}
	tables := l.tables()
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != corev1.PodPending || p.Spec.NodeName != "" {
			continue
		}
		for _, r := range slices.Sorted(keysOf(gpuResources(p))) {
			profile, ok := mig.ProfileOfResource(r)
			if !ok || offered[r] {
				continue
			}
			l.profile(p, r, profile, tables)
		}
	}
}

func keysOf(m map[string]int64) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// profile reports a pod whose profile no pool can give.
func (l *look) profile(p *corev1.Pod, resource, profile string, tables mig.Tables) {
	var near []string
	for i := range l.f.Pools {
		can, known, others := givesProfile(&l.f.Pools[i], profile, tables)
		if can {
			return
		}
		if !known {
			l.cannot("nobody has said what %s of GPUNodePool %s can be cut into", l.f.Pools[i].Spec.Template.Product, l.f.Pools[i].Name)
			return
		}
		near = append(near, others...)
	}
	slices.Sort(near)
	near = slices.Compact(near)
	f := Finding{
		Object: "Pod " + p.Namespace + "/" + p.Name, Seen: "it asks for " + resource + ", which no node offers and no pool's card can be cut into",
		Means: "it waits for ever", Fix: "Ask for a profile that there is, or make a pool of cards that have this one (docs/mig.md).",
		Commands: []string{l.in(p.Namespace, "get", "pod", p.Name, "-o", "jsonpath={.spec.containers[*].resources.limits}")},
	}
	if len(near) > 0 {
		f.Fix = "Ask for a profile that there is (" + named(near) + "), or make a pool of cards that have this one (docs/mig.md)."
	}
	l.fault(f)
}

// givesProfile reports whether a pool's cards have a profile, or can be given it; known
// is false where nobody can tell. others are the profiles that they may have.
func givesProfile(pool *v1alpha1.GPUNodePool, profile string, tables mig.Tables) (can, known bool, others []string) {
	m := pool.Spec.MIG
	if m == nil {
		return false, true, nil
	}
	for _, layout := range m.BootLayout {
		if layout[profile] > 0 {
			return true, true, nil
		}
		for name, n := range layout {
			if n > 0 {
				others = append(others, name)
			}
		}
	}
	if m.Actuator == "none" {
		return false, true, others
	}
	table, ok := tables.ForModel(gpu.ProductName(pool.Spec.Template.Product))
	if !ok {
		return false, gpuWithoutMIG(pool.Spec.Template.Product), others
	}
	for _, p := range table.Profiles() {
		name := table.Name(p)
		if len(m.AllowedProfiles) > 0 && !slices.Contains(m.AllowedProfiles, name) {
			continue
		}
		if name == profile {
			return true, true, nil
		}
		others = append(others, name)
	}
	return false, true, others
}

// gpuWithoutMIG reports whether a product is one that we know and that has no MIG.
func gpuWithoutMIG(product string) bool {
	_, known := gpu.ParseProduct(product)
	return known
}
