package pools

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of Karpenter's API.
const (
	karpenterGroup    = "karpenter.sh"
	labelKarpenterFor = "karpenter.sh/nodepool"
)

// karpenter names nodes by their NodeClaims. A static NodePool whose replicas are
// lowered chooses by itself which node goes, and one whose NodeClaim is deleted
// makes another. So the limit on its nodes is lowered first, which keeps it from
// making another, and then the NodeClaim is deleted. The replicas follow once
// nothing is left that could be chosen instead.
type karpenter struct {
	client client.Client
	live   client.Reader
}

// size is the smaller of the replicas and the limit on nodes.
func (karpenter) size(t target) (int, error) {
	replicas, err := t.replicas()
	if err != nil {
		return 0, err
	}
	limit, ok, err := unstructured.NestedFieldNoCopy(t.object.Object, "spec", "limits", "nodes")
	if err != nil || !ok {
		return replicas, err
	}
	q, err := resource.ParseQuantity(fmt.Sprint(limit))
	if err == nil && q.Sign() < 0 {
		err = fmt.Errorf("%s is below zero", &q)
	}
	if err != nil {
		return 0, &Problem{ReasonTarget, fieldScale + ".name",
			fmt.Sprintf("%s: spec.limits.nodes: %v", t.name(), err), "write a number of nodes there"}
	}
	if q.AsApproximateFloat64() >= float64(replicas) { // larger ones may be no int64
		return replicas, nil
	}
	return int(q.Value()), nil
}

func (k karpenter) resize(t target, size int) error {
	if err := t.setReplicas(size); err != nil {
		return err
	}
	return k.limit(t, size)
}

func (karpenter) limit(t target, size int) error {
	if err := unstructured.SetNestedField(t.object.Object, strconv.Itoa(size), "spec", "limits", "nodes"); err != nil {
		return fmt.Errorf("%s: spec.limits.nodes: %w", t.name(), err)
	}
	return nil
}

// foreign: a NodePool without replicas is sized and consolidated by Karpenter.
func (karpenter) foreign(_ context.Context, t target) (string, error) {
	if _, static, _ := unstructured.NestedInt64(t.object.Object, "spec", "replicas"); !static {
		return "Karpenter itself, which adds and consolidates the nodes of a NodePool without spec.replicas", nil
	}
	return "", nil
}

func (k karpenter) all(ctx context.Context, t target) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(t.object.GroupVersionKind().GroupVersion().WithKind("NodeClaimList"))
	if err := k.live.List(ctx, list, client.MatchingLabels{labelKarpenterFor: t.object.GetName()}); err != nil {
		return nil, fmt.Errorf("listing the NodeClaims of %s: %w", t.name(), err)
	}
	return list.Items, nil
}

func (karpenter) providerID(claim *unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(claim.Object, "status", "providerID")
	return id
}

// passedOver: a NodeClaim that is counted and not being deleted is one whose
// deletion was cut short; it is still to be asked for.
func (karpenter) passedOver(_ target, claim *unstructured.Unstructured) bool {
	return claim.GetDeletionTimestamp() == nil
}

func (k karpenter) find(ctx context.Context, t target, node *corev1.Node) (*unstructured.Unstructured, error) {
	all, err := k.all(ctx, t)
	if err != nil {
		return nil, err
	}
	for i := range all {
		name, _, _ := unstructured.NestedString(all[i].Object, "status", "nodeName")
		if name != node.Name {
			continue
		}
		if id := k.providerID(&all[i]); id != node.Spec.ProviderID {
			return nil, fmt.Errorf("%w: NodeClaim %s names it with providerID %q, the node's is %q", ErrUnnamed, all[i].GetName(), id, node.Spec.ProviderID)
		}
		return &all[i], nil
	}
	return nil, nil
}

func (k karpenter) remove(ctx context.Context, t target, claim *unstructured.Unstructured) error {
	if claim.GetDeletionTimestamp() != nil {
		return nil
	}
	if !t.counted(claim) {
		if err := k.lower(ctx, t, claim); err != nil {
			return err
		}
	}
	err := k.client.Delete(ctx, claim, client.Preconditions{UID: ptr.To(claim.GetUID())})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting NodeClaim %s: %w", claim.GetName(), err)
	}
	return nil
}

// lower makes the limit smaller by the claim. The replicas come down to what the
// limit was, but never below the claims that exist: of one that Karpenter has not
// yet seen go it would count the others as too many.
func (k karpenter) lower(ctx context.Context, t target, claim *unstructured.Unstructured) error {
	all, err := k.all(ctx, t)
	if err != nil {
		return err
	}
	size, err := k.size(t)
	if err != nil {
		return err
	}
	replicas, err := t.replicas()
	if err != nil {
		return err
	}
	before := t.object.DeepCopy()
	t.setRemoving(append(slices.DeleteFunc(t.removing(), gone(all)), string(claim.GetUID())))
	if err := t.setReplicas(min(replicas, max(size, len(all)))); err != nil {
		return err
	}
	if err := k.limit(t, max(0, size-1)); err != nil {
		return err
	}
	return patch(ctx, k.client, before, t.object, "lowering the limit of")
}
