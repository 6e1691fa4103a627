package pods

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

const (
	// clusterEvery is the time between two requests to the API server without a change.
	clusterEvery = time.Minute
	// clusterRetry is the delay of one more request after a failure or a
	// change.
	clusterRetry = 10 * time.Second
	// clusterWait is how long the first attribution waits for the API server.
	clusterWait = 2 * time.Second
)

// world is the API server's last answer; immutable.
type world struct {
	pods    map[collect.PodName]*Pod
	texts   map[collect.PodName]string               // of Options.PodText
	byUID   map[string]*Pod                          // by the UID in cgroup paths
	claims  []Claim                                  // of the pods' annotations
	standIn map[collect.PodName][]collect.Allocation // by KAI's reservation pod: the users of its GPU
	devices map[draName]Device                       // of the node's ResourceSlices
	failed  error                                    // why some of it is of an earlier answer
}

// cluster keeps the API server's last answer about this node's pods and
// ResourceSlices. It is requested when the kubelet's answer has changed, and
// every minute; the last one stays while requests fail.
type cluster struct {
	opts     Options
	now      atomic.Pointer[world]
	wake     chan struct{}
	badNotes error // as last logged; refresh's goroutine only
}

func newCluster(o Options) *cluster {
	c := &cluster{opts: o, wake: make(chan struct{}, 1)}
	c.now.Store(&world{})
	return c
}

// asksPods reports whether an option requires the node's pods.
func (o *Options) asksPods() bool { return o.Annotations || o.PodText != nil || o.Processes != nil }

// poke requests a refresh soon.
func (c *cluster) poke() { send(c.wake) }

// send lets the receiver know, unless it is about to anyway.
func send(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// run refreshes now and until ctx ends, and calls changed after each request.
func (c *cluster) run(ctx context.Context, changed func()) {
	for woken := false; ; {
		c.refresh(ctx)
		changed()
		next := clusterEvery
		// A scheduler or a DRA driver may write its result after the kubelet's
		// answer.
		if woken || c.now.Load().failed != nil {
			next = clusterRetry
		}
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
			woken = true
		case <-time.After(next):
			woken = false
		}
	}
}

// refresh requests once. A failure is logged when it begins and when it ends.
func (c *cluster) refresh(ctx context.Context) {
	next := *c.now.Load()
	before := next.failed
	var errs []error
	if c.opts.asksPods() {
		if pods, err := c.opts.API.listPods(ctx, c.opts.Node); err != nil {
			errs = append(errs, err)
		} else {
			c.learnPods(&next, pods)
		}
	}
	if c.opts.DRA {
		if devices, err := c.opts.API.listSlices(ctx, c.opts.Node); err != nil {
			errs = append(errs, err)
		} else {
			next.devices = devices
		}
	}
	if ctx.Err() != nil {
		return
	}
	next.failed = errors.Join(errs...)
	c.now.Store(&next)
	switch {
	case next.failed != nil && before == nil:
		c.opts.Log.Warn("the API server does not answer about this node", "error", next.failed, "keeps_last_answer", next.pods != nil || next.devices != nil)
	case next.failed == nil && before != nil:
		c.opts.Log.Info("the API server answers about this node again")
	}
}

func (c *cluster) learnPods(w *world, pods []Pod) {
	w.pods = make(map[collect.PodName]*Pod, len(pods))
	w.byUID = make(map[string]*Pod, len(pods))
	w.claims, w.texts, w.standIn = nil, map[collect.PodName]string{}, map[collect.PodName][]collect.Allocation{}
	inGroup := map[string][]collect.Allocation{} // by KAI's group
	var bad error
	for i := range pods {
		p := &pods[i]
		name := collect.PodName{Namespace: p.Namespace, Name: p.Name}
		w.pods[name], w.byUID[p.UID] = p, p
		if c.opts.PodText != nil {
			w.texts[name] = c.opts.PodText(p)
		}
		if !c.opts.Annotations || p.Over {
			continue
		}
		claims, err := annotated(p)
		if err != nil && bad == nil {
			bad = err
			if c.badNotes == nil || c.badNotes.Error() != err.Error() {
				c.opts.Log.Warn("a pod's annotation names no GPU", "namespace", p.Namespace, "pod", p.Name, "error", err)
			}
		}
		w.claims = append(w.claims, claims...)
		for _, group := range p.kaiGroups() {
			inGroup[group] = append(inGroup[group], collect.Allocation{Namespace: p.Namespace, Pod: p.Name, Container: cmp.Or(p.Annotations[kaiContainer], p.Containers[0].Name)})
		}
	}
	c.badNotes = bad
	for i := range pods { // any pod may have the annotation, even with another pod's UID in it
		if hash := pods[i].Annotations[cgroupHash]; hash != "" && w.byUID[hash] == nil {
			w.byUID[hash] = &pods[i]
		}
	}
	for name, p := range w.pods {
		if _, reserves := p.Annotations[kaiReserves]; reserves {
			w.standIn[name] = inGroup[p.Labels[demand.KAIGroup]]
		}
	}
}

// amend returns the claims with the kubelet's corrected. For containers whose annotations state
// their claims, those replace the kubelet's. A claim of a pod that only reserves a GPU becomes one
// of each pod that uses the GPU.
func (w *world) amend(claims []Claim) []Claim {
	stated := map[collect.Allocation]bool{}
	for _, c := range w.claims {
		stated[c.Allocation] = true
	}
	out := slices.Grow(slices.Clone(w.claims), len(claims))
	for _, c := range claims {
		users := w.standIn[collect.PodName{Namespace: c.Allocation.Namespace, Name: c.Allocation.Pod}]
		if len(users) == 0 && !stated[c.Allocation] {
			out = append(out, c)
		}
		for _, user := range users {
			c.Allocation = user
			out = append(out, c)
		}
	}
	return out
}

// over reports whether an allocation's pod has ended.
func (w *world) over(h collect.Allocated) bool {
	p, ok := w.pods[collect.PodName{Namespace: h.Namespace, Name: h.Pod}]
	return ok && p.Over
}

// Pod is one pod of this node, from the API server.
type Pod struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	Containers           []demand.Container // init containers last
	// names of the running containers by the container runtime's id, without "containerd://".
	names map[string]string
	ended []string // init containers that are over
	// Over is a pod that has ended: it may still be in the kubelet's answer,
	// and has no device.
	Over bool
}

// listPods reads the pods of one node.
func (a *API) listPods(ctx context.Context, node string) ([]Pod, error) {
	var list corev1.PodList
	err := a.Read(ctx, "/api/v1/pods", ofNode(node), &list)
	return podsOf(&list), err
}

func podsOf(list *corev1.PodList) []Pod {
	pods := make([]Pod, 0, len(list.Items))
	for i := range list.Items {
		item := &list.Items[i]
		pod := Pod{
			Namespace: item.Namespace, Name: item.Name, UID: string(item.UID), Labels: item.Labels, Annotations: item.Annotations,
			Over: item.Status.Phase == corev1.PodSucceeded || item.Status.Phase == corev1.PodFailed, names: map[string]string{},
		}
		for _, status := range append(item.Status.ContainerStatuses, item.Status.InitContainerStatuses...) {
			if _, id, _ := strings.Cut(status.ContainerID, "://"); id != "" {
				pod.names[id] = status.Name
			}
		}
		for _, status := range item.Status.InitContainerStatuses {
			if status.State.Terminated != nil {
				pod.ended = append(pod.ended, status.Name)
			}
		}
		for i, c := range append(item.Spec.Containers, item.Spec.InitContainers...) {
			of := demand.Container{Name: c.Name, Init: i >= len(item.Spec.Containers)}
			for resource := range c.Resources.Limits { // extended ones have equal limits and requests
				of.Resources = append(of.Resources, string(resource))
			}
			pod.Containers = append(pod.Containers, of)
		}
		pods = append(pods, pod)
	}
	return pods
}

// cgroupHash is an annotation of static pods. The kubelet names their cgroups by this hash of their manifest,
// other pods' cgroups by the pod's UID.
const cgroupHash = "kubernetes.io/config.hash"

// KAI's scheduler runs a reservation pod for each GPU that pods use in parts. That pod has the
// annotation kaiReserves and the same group label as the pods that use the GPU (pkg/binder of 0.13).
const (
	kaiReserves  = "run.ai/reserve_for_gpu_index"
	kaiContainer = "gpu-fraction-container-name" // annotation: the container that has the part; the first one if absent
)

// kaiGroups are the groups of KAI whose GPUs the pod uses.
func (p *Pod) kaiGroups() []string {
	if _, reserves := p.Annotations[kaiReserves]; reserves || len(p.Containers) == 0 {
		return nil
	}
	return demand.KAIGroups(p.Labels)
}

// annotated returns the claims that the annotations of a fractional dialect's scheduler
// state. It leaves out containers that request no device: any pod may have such
// annotations, with the GPUs of another. An error names the annotation; the other claims
// are returned all the same.
func annotated(p *Pod) ([]Claim, error) {
	all, err := demand.FromAnnotations(p.Annotations, p.Containers)
	var claims []Claim
	for _, a := range all {
		of := &p.Containers[a.Container]
		if slices.Contains(p.ended, of.Name) || !slices.ContainsFunc(of.Resources, func(name string) bool { return strings.Contains(name, "/") }) {
			continue
		}
		claims = append(claims, Claim{DeviceID: cmp.Or(a.MIGDevice, a.ID), Allocation: collect.Allocation{
			Namespace: p.Namespace, Pod: p.Name, Container: of.Name,
		}})
	}
	return claims, err
}
