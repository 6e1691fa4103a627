package act

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/plan"
)

// promiseLasts is how long capacity is reserved for a pod: the usual grace periods of
// evicted pods, and a margin.
const promiseLasts = 2 * time.Minute

// The scheduler may clear a nomination for a node that is coming up. It is then written again, at most every
// expectAgain: there are many of them, and the node takes longer than that. It ends expectLasts after the last plan
// that has it. In that time the node is ready, and the scheduler tries the pod on it.
const (
	expectAgain = 5 * time.Second
	expectLasts = 30 * time.Second
)

// promise is capacity on a node that is being freed for a pod, or that is coming up for it.
type promise struct {
	node     string
	until    time.Time
	upcoming bool      // the node is coming up
	again    time.Time // the nomination is not written again before
}

// promises nominate pods for the nodes on which capacity is freed for them, or that are coming up for them. They are not
// persisted: a new leader starts without any.
type promises struct {
	o      *Options
	byPod  map[string]promise
	failed map[metav1.StatusReason]bool // why nominations have failed since the last one that was written
}

// give nominates pods for the node on which capacity is about to be freed for them.
// For pods of the same or a lower priority the scheduler counts a nominated pod as
// running there. Without a nomination the first pod takes the capacity, often the
// replacement of the evicted one.
//
// The scheduler clears a nomination whenever it tries the pod and finds no capacity,
// so each reconcile nominates again until the pod is bound. Capacity that another pod
// takes in between is reclaimed again. It never clears the nomination of a
// pod that never preempts: see release.
func (a promises) give(ctx context.Context, r *reconcile, pods []string, node string) {
	if !a.o.Nominate {
		return
	}
	for _, key := range pods {
		a.byPod[key] = promise{node: node, until: r.now.Add(promiseLasts)}
		a.nominate(ctx, r, key, node)
	}
}

// expect records a plan's nominations, which keep then writes. They are for nodes that have registered and are not
// ready yet: smaller pods must not take the nodes that were requested for larger ones.
func (a promises) expect(ctx context.Context, r *reconcile, all []plan.Nomination) {
	if !a.o.Nominate || a.o.DryRun {
		return
	}
	for _, n := range all {
		p := a.byPod[n.Pod]
		if p.node != n.Node {
			if p.node != "" {
				a.release(ctx, n.Pod, p.node)
			}
			p = promise{node: n.Node, upcoming: true}
		}
		p.until = r.now.Add(expectLasts)
		a.byPod[n.Pod] = p
	}
}

// keep nominates again the pods that are still pending: with upcoming, those for nodes that are coming up, else those
// for capacity that is being freed. It forgets the others.
func (a promises) keep(ctx context.Context, r *reconcile, upcoming bool) {
	for _, key := range slices.Sorted(maps.Keys(a.byPod)) {
		p := a.byPod[key]
		if seen, ok := r.pods[key]; !ok || seen.Node != "" {
			delete(a.byPod, key)
			continue
		}
		if r.now.After(p.until) {
			a.drop(ctx, []string{key})
			continue
		}
		if p.upcoming != upcoming || r.now.Before(p.again) {
			continue
		}
		a.nominate(ctx, r, key, p.node)
		if upcoming {
			p.again = r.now.Add(expectAgain)
			a.byPod[key] = p
		}
	}
}

func (a promises) nominate(ctx context.Context, r *reconcile, key, node string) {
	seen, ok := r.pods[key]
	if !ok || seen.UID == "" {
		return // the pod is not created yet
	}
	a.write(ctx, a.o.Client, key, node, func(pod *corev1.Pod) bool {
		// The scheduler's own nomination takes precedence.
		return string(pod.UID) == seen.UID && pod.DeletionTimestamp == nil && pod.Status.NominatedNodeName == ""
	})
}

// write sets the nomination of a pending pod, empty for none, if may allows it and the pod has not changed since it was
// read: the scheduler may have nominated or bound it.
func (a promises) write(ctx context.Context, from client.Reader, key, node string, may func(*corev1.Pod) bool) {
	pod, err := podOf(ctx, from, key)
	if err == nil && pod.Spec.NodeName == "" && may(pod) {
		base := client.MergeFromWithOptions(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
		pod.Status.NominatedNodeName = node
		if err = a.o.Client.Status().Patch(ctx, pod, base); err == nil {
			clear(a.failed)
		}
	}
	// There may be a hundred pods, each few seconds, while a policy of the cluster forbids it.
	if why := apierrors.ReasonForError(err); err != nil && !isGone(err) && ctx.Err() == nil && !a.failed[why] {
		a.failed[why] = true
		a.o.Log.Warn("nominating pods failed", "pod", key, "node", node, "err", err)
	}
}

// podOf reads a pod, "namespace/name", from the API server or a cache.
func podOf(ctx context.Context, from client.Reader, key string) (*corev1.Pod, error) {
	var pod corev1.Pod
	namespace, name, _ := strings.Cut(key, "/")
	return &pod, from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &pod)
}

// drop takes back what was promised to pods.
func (a promises) drop(ctx context.Context, pods []string) {
	for _, key := range pods {
		a.release(ctx, key, a.byPod[key].node)
		delete(a.byPod, key)
	}
}

// release removes the nomination of a pod that never preempts. The scheduler clears a nomination only after it has
// looked for pods to preempt (v1.33 to v1.37: framework/preemption), so that nomination would last as long as the pod
// is pending. It would keep other pods from the node, and cluster-autoscaler and Karpenter from the pod.
func (a promises) release(ctx context.Context, key, node string) {
	a.write(ctx, a.o.Live, key, "", func(pod *corev1.Pod) bool {
		return ptr.Deref(pod.Spec.PreemptionPolicy, "") == corev1.PreemptNever && pod.Status.NominatedNodeName == node
	})
}
