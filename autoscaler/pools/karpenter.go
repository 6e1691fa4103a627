package pools

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/amount"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// Names of Karpenter's API.
const (
	karpenterGroup    = "karpenter.sh"
	labelKarpenterFor = "karpenter.sh/nodepool"
)

// karpenter identifies nodes by their NodeClaims. If the replicas of a static NodePool are lowered, Karpenter chooses
// the node to remove. If a NodeClaim is deleted, Karpenter makes another. So a removal first lowers the limit on nodes,
// which prevents another, and then deletes the NodeClaim. The replicas, and with them the headroom for drift, are
// lowered once Karpenter could choose no other node.
type karpenter struct {
	client client.Client
	live   client.Reader
}

// size is the smaller of the replicas and the limit on nodes. It also counts NodeClaims whose removal was interrupted
// after the limit was lowered.
func (k karpenter) size(t target, machines []unstructured.Unstructured) (int, error) {
	replicas, err := t.replicas()
	if err != nil {
		return 0, err
	}
	size, err := k.limited(t, replicas)
	for i := range machines {
		if t.uncounted(&machines[i]) && k.passedOver(t, &machines[i]) {
			size++
		}
	}
	return size, err
}

// limited returns the replicas as far as the limit on nodes allows them.
func (karpenter) limited(t target, replicas int) (int, error) {
	limit, ok, err := unstructured.NestedFieldNoCopy(t.object.Object, "spec", "limits", "nodes")
	if err != nil || !ok {
		return replicas, err
	}
	q, err := amount.Parse(fmt.Sprint(limit))
	if err == nil && q.Sign() < 0 {
		err = fmt.Errorf("%s is below zero", &q)
	}
	if err != nil {
		return 0, &Problem{ReasonTarget, fieldScale + ".name",
			fmt.Sprintf("%s: spec.limits.nodes: %v", t.name(), err), "write a number of nodes there"}
	}
	if q.AsApproximateFloat64() >= float64(replicas) { // a larger limit may overflow an int64
		return replicas, nil
	}
	return int(q.Value()), nil
}

// driftHeadroom is how many nodes more than its replicas a NodePool may have. Karpenter replaces a
// drifted node of a static NodePool only within spec.limits.nodes: the new one comes first.
const driftHeadroom = 1

// resize sets the replicas and the limit on nodes. Karpenter counts NodeClaims that it terminates towards the limit.
// Until it is gone, Karpenter counts a NodeClaim as a replica if it has not seen that it ends, or if it was never
// launched (1.8 to 1.14, pkg/controllers/state). With fewer replicas than that it would remove a node of its choice. It
// sees changed replicas at once, but a changed limit only within half a minute. So where the replicas would stay the
// same, they are lowered first.
func (k karpenter) resize(ctx context.Context, t target, size int) error {
	all, err := k.all(ctx, t)
	if err != nil {
		return err
	}
	now, err := k.size(t, all)
	if err != nil {
		return err
	}
	if size > now && condition(t.object, "Ready") == "False" {
		return &Problem{ReasonTarget, fieldScale + ".name", t.name() + " is not ready, and Karpenter makes no node of it", "see the conditions in its status"}
	}
	counted, ending := 0, 0
	for i := range all {
		if condition(&all[i], "Drained")+condition(&all[i], "InstanceTerminating") != "" {
			ending++
		} else {
			counted++
		}
	}
	if had, err := t.replicas(); err == nil && had == size && now == counted && now < size {
		if err := t.write(ctx, k.client, k, all, now, strconv.Itoa(now)); err != nil {
			return err
		}
	}
	limit := size
	if counted <= size {
		limit += ending + driftHeadroom
	}
	return t.write(ctx, k.client, k, all, max(size, counted), strconv.Itoa(limit))
}

// nodePoolTemplate is what Karpenter takes from a NodePool for each node (1.14, pkg/controllers/provisioning/scheduling).
type nodePoolTemplate struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Taints        []corev1.Taint                   `json:"taints"`
		StartupTaints []v1alpha1.Taint                 `json:"startupTaints"`
		Requirements  []corev1.NodeSelectorRequirement `json:"requirements"`
	} `json:"spec"`
}

// describe adds what is the same on each node of the NodePool.
func (karpenter) describe(t target, l *Listing) error {
	var from nodePoolTemplate
	of, _, _ := unstructured.NestedMap(t.object.Object, "spec", "template")
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(of, &from); err != nil {
		return fmt.Errorf("%s: spec.template: %w", t.name(), err)
	}
	l.described = &corev1.Node{Spec: corev1.NodeSpec{Taints: from.Spec.Taints}}
	l.described.Labels = map[string]string{labelKarpenterFor: t.object.GetName()}
	for _, r := range from.Spec.Requirements {
		if r.Operator == corev1.NodeSelectorOpIn && len(r.Values) == 1 {
			l.described.Labels[r.Key] = r.Values[0]
		}
	}
	maps.Copy(l.described.Labels, from.Metadata.Labels)
	l.StartupTaints = from.Spec.StartupTaints
	return nil
}

// foreign: a NodePool without replicas is sized and consolidated by Karpenter.
func (karpenter) foreign(t target) string {
	if _, static, _ := unstructured.NestedInt64(t.object.Object, "spec", "replicas"); !static {
		return "Karpenter itself, which adds and consolidates the nodes of a NodePool without spec.replicas"
	}
	return ""
}

func (k karpenter) all(ctx context.Context, t target) ([]unstructured.Unstructured, error) {
	return t.machines(ctx, k.live, "NodeClaim", labelKarpenterFor)
}

func (karpenter) node(claim *unstructured.Unstructured) (name, providerID string) {
	return stringAt(claim, "status", "nodeName"), stringAt(claim, "status", "providerID")
}

// Terminates reports whether Karpenter is terminating a node. The replicas of a static NodePool do not count such a
// node (1.14, pkg/controllers/static/provisioning): Karpenter replaces it within the limit on nodes.
func Terminates(n *corev1.Node) bool {
	_, made := n.Labels[labelKarpenterFor]
	return made && n.DeletionTimestamp != nil
}

// passedOver: a NodeClaim that is subtracted and not being deleted belongs to an interrupted
// removal; it is still to be deleted.
func (karpenter) passedOver(_ target, claim *unstructured.Unstructured) bool {
	return claim.GetDeletionTimestamp() == nil
}

// replace: Karpenter makes another, and deletes the Node at once.
func (k karpenter) replace(ctx context.Context, _ target, _ []unstructured.Unstructured, claim *unstructured.Unstructured) error {
	return remove(ctx, k.client, claim)
}

func (k karpenter) remove(ctx context.Context, t target, all []unstructured.Unstructured, claim *unstructured.Unstructured, least int) error {
	if claim.GetDeletionTimestamp() != nil {
		return nil
	}
	if !t.uncounted(claim) {
		if err := k.lower(ctx, t, all, claim, least); err != nil {
			return err
		}
	}
	return remove(ctx, k.client, claim)
}

// lower decreases the limit by the claim. The replicas come down to the former limit, but never
// below the existing claims: as long as Karpenter has not seen a claim go, it would count the
// others as too many.
func (k karpenter) lower(ctx context.Context, t target, all []unstructured.Unstructured, claim *unstructured.Unstructured, least int) error {
	size, err := k.size(t, all)
	if err = cmp.Or(err, shrinks(size, least)); err != nil {
		return err
	}
	replicas, err := t.replicas()
	if err != nil {
		return err
	}
	return t.write(ctx, k.client, k, all, min(replicas, max(size, len(all))), strconv.Itoa(size-1), claim.GetUID())
}
