package pools

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/amount"
)

// Names of Karpenter's API.
const (
	karpenterGroup    = "karpenter.sh"
	labelKarpenterFor = "karpenter.sh/nodepool"
)

// karpenter identifies nodes by their NodeClaims. A static NodePool with lowered replicas chooses
// the node itself, and one whose NodeClaim is deleted makes another. So the limit on its nodes is
// lowered first, which prevents another, then the NodeClaim is deleted. The replicas follow once no
// other node could be chosen instead, and with them the headroom for drift.
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

func (karpenter) resize(_ context.Context, t target, _ []unstructured.Unstructured, size int) error {
	if err := t.setReplicas(size); err != nil {
		return err
	}
	return t.set(strconv.Itoa(size+driftHeadroom), "spec", "limits", "nodes")
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

// Terminates reports whether Karpenter terminates a node, which a static NodePool's replicas then do not count (1.14,
// pkg/controllers/static/provisioning): Karpenter replaces it within the limit on nodes.
func Terminates(n *corev1.Node) bool {
	_, made := n.Labels[labelKarpenterFor]
	return made && n.DeletionTimestamp != nil
}

// passedOver: a NodeClaim that is subtracted and not being deleted belongs to an interrupted
// removal; it is still to be deleted.
func (karpenter) passedOver(_ target, claim *unstructured.Unstructured) bool {
	return claim.GetDeletionTimestamp() == nil
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
	size, err := k.size(t)
	if err = cmp.Or(err, shrinks(size, least)); err != nil {
		return err
	}
	replicas, err := t.replicas()
	if err != nil {
		return err
	}
	before := t.object.DeepCopy()
	t.addRemoving(all, claim)
	if err := t.setReplicas(min(replicas, max(size, len(all)))); err != nil {
		return err
	}
	if err := t.set(strconv.Itoa(size-1), "spec", "limits", "nodes"); err != nil {
		return err
	}
	return patch(ctx, k.client, before, t.object, "lowering the limit of")
}
