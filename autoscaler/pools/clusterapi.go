package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Names of Cluster API's contract.
const (
	capiGroup             = "cluster.x-k8s.io"
	deleteMachine         = "cluster.x-k8s.io/delete-machine"
	labelDeployment       = "cluster.x-k8s.io/deployment-name"
	labelSet              = "cluster.x-k8s.io/set-name"
	labelMachinePool      = "cluster.x-k8s.io/pool-name"
	annotationMinSize     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	annotationMaxSize     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	annotationManagedBy   = "cluster.x-k8s.io/replicas-managed-by"
	kindMachineDeployment = "MachineDeployment"
	kindMachinePool       = "MachinePool"
	topologyManager       = "capi-topology"
)

// clusterAPI names nodes by their Machines: one that carries the delete-machine
// annotation is the first to go when the replicas are lowered.
type clusterAPI struct {
	client client.Client
	live   client.Reader
}

func (clusterAPI) size(t target) (int, error) { return t.replicas() }

func (clusterAPI) resize(t target, size int) error { return t.setReplicas(size) }

func (clusterAPI) foreign(_ context.Context, t target) (string, error) {
	a := t.object.GetAnnotations()
	for _, key := range []string{annotationMinSize, annotationMaxSize} {
		if _, ok := a[key]; ok {
			return "cluster-autoscaler, by the annotation " + key, nil
		}
	}
	if by, ok := a[annotationManagedBy]; ok {
		return fmt.Sprintf("%q, by the annotation %s", by, annotationManagedBy), nil
	}
	if owner := metav1.GetControllerOf(t.object); owner != nil {
		return fmt.Sprintf("%s %s, which it belongs to; name that one instead", owner.Kind, owner.Name), nil
	}
	for _, m := range t.object.GetManagedFields() {
		if m.Manager == topologyManager && owns(m.FieldsV1, "f:spec", "f:replicas") {
			return "the Cluster's topology; take replicas out of its spec.topology.workers", nil
		}
	}
	return "", nil
}

// owns reports whether a field is among those of an entry of managedFields.
func owns(f *metav1.FieldsV1, path ...string) bool {
	if f == nil {
		return false
	}
	var at map[string]json.RawMessage
	raw := json.RawMessage(f.Raw)
	for _, key := range path {
		if at = nil; json.Unmarshal(raw, &at) != nil {
			return false
		}
		var ok bool
		if raw, ok = at[key]; !ok {
			return false
		}
	}
	return true
}

// all lists the Machines of the target.
func (c clusterAPI) all(ctx context.Context, t target) ([]unstructured.Unstructured, error) {
	key := map[string]string{kindMachineDeployment: labelDeployment, "MachineSet": labelSet, kindMachinePool: labelMachinePool}[t.object.GetKind()]
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(t.object.GroupVersionKind().GroupVersion().WithKind("MachineList"))
	err := c.live.List(ctx, list, client.InNamespace(t.object.GetNamespace()), client.MatchingLabels{key: t.object.GetName()})
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of %s: %w", t.name(), err)
	}
	return list.Items, nil
}

func (clusterAPI) providerID(machine *unstructured.Unstructured) string {
	id, _, _ := unstructured.NestedString(machine.Object, "spec", "providerID")
	return id
}

func (c clusterAPI) find(ctx context.Context, t target, node *corev1.Node) (*unstructured.Unstructured, error) {
	all, err := c.all(ctx, t)
	if err != nil {
		return nil, err
	}
	for i := range all {
		name, _, _ := unstructured.NestedString(all[i].Object, "status", "nodeRef", "name")
		if name != node.Name {
			continue
		}
		if id := c.providerID(&all[i]); id != node.Spec.ProviderID {
			return nil, fmt.Errorf("%w: Machine %s names it with providerID %q, the node's is %q", ErrUnnamed, all[i].GetName(), id, node.Spec.ProviderID)
		}
		return &all[i], nil
	}
	return nil, nil
}

// settled refuses to grow while a marked Machine has not been taken yet: raised
// too early, the replicas would never have been lower and nothing would go.
func (c clusterAPI) settled(ctx context.Context, t target) error {
	if len(t.removing()) == 0 {
		return nil
	}
	all, err := c.all(ctx, t)
	if err != nil {
		return err
	}
	for i := range all {
		if t.counted(&all[i]) && all[i].GetDeletionTimestamp() == nil && !c.passedOver(t, &all[i]) {
			return fmt.Errorf("%w: %s has still to take Machine %s", ErrBusy, t.name(), all[i].GetName())
		}
	}
	return nil
}

// passedOver reports whether the target's controller has seen the replicas as
// they are and is done: a Machine that is still there was not the one it took.
func (clusterAPI) passedOver(t target, machine *unstructured.Unstructured) bool {
	if machine.GetDeletionTimestamp() != nil {
		return false
	}
	seen, _, _ := unstructured.NestedInt64(t.object.Object, "status", "observedGeneration")
	want, _, _ := unstructured.NestedInt64(t.object.Object, "spec", "replicas")
	have, ok, _ := unstructured.NestedInt64(t.object.Object, "status", "replicas")
	return ok && seen == t.object.GetGeneration() && have == want
}

// remove marks the Machine and then lowers the replicas, in the same write that
// says for which Machine: cut short at any point, a second try does what is left.
func (c clusterAPI) remove(ctx context.Context, t target, machine *unstructured.Unstructured) error {
	if machine.GetDeletionTimestamp() != nil || t.counted(machine) && !c.passedOver(t, machine) {
		return nil
	}
	replicas, err := t.replicas()
	if err != nil {
		return err
	}
	all, err := c.all(ctx, t)
	if err != nil {
		return err
	}
	if t.object.GetKind() == kindMachineDeployment && rolling(all) {
		return fmt.Errorf("%w: %s has Machines of more than one MachineSet, a rollout is under way", ErrBusy, t.name())
	}
	if _, marked := machine.GetAnnotations()[deleteMachine]; !marked {
		before := machine.DeepCopy()
		a := machine.GetAnnotations()
		if a == nil {
			a = map[string]string{}
		}
		a[deleteMachine] = "gpuscale"
		machine.SetAnnotations(a)
		if err := patch(ctx, c.client, before, machine, "marking"); err != nil {
			return err
		}
	}
	before := t.object.DeepCopy()
	t.setRemoving(append(slices.DeleteFunc(t.removing(), gone(all)), string(machine.GetUID())))
	if err := t.setReplicas(max(0, replicas-1)); err != nil {
		return err
	}
	return patch(ctx, c.client, before, t.object, "lowering")
}

// rolling reports whether Machines are of more than one MachineSet.
func rolling(all []unstructured.Unstructured) bool {
	sets := map[string]bool{}
	for i := range all {
		sets[all[i].GetLabels()[labelSet]] = true
	}
	return len(sets) > 1
}

// gone tells which UIDs are of no object in the list.
func gone(all []unstructured.Unstructured) func(uid string) bool {
	there := map[string]bool{}
	for i := range all {
		there[string(all[i].GetUID())] = true
	}
	return func(uid string) bool { return !there[uid] }
}
