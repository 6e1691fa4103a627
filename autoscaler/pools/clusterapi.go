package pools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

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
	annotationMinSize     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	annotationMaxSize     = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	annotationManagedBy   = "cluster.x-k8s.io/replicas-managed-by"
	kindMachineDeployment = "MachineDeployment"
	kindMachinePool       = "MachinePool"
	topologyManager       = "capi-topology"
)

// clusterAPI identifies nodes by their Machines: when the replicas are lowered, a Machine with the
// delete-machine annotation goes first. A MachinePool has no such rule: its infrastructure lowers a
// group of the cloud, which chooses the instance (CAPA v2.9: exp/controllers/awsmachinepool), so it
// only scales up.
type clusterAPI struct {
	client client.Client
	live   client.Reader
}

func (clusterAPI) size(t target) (int, error) { return t.replicas() }

func (clusterAPI) resize(t target, size int) error { return t.setReplicas(size) }

func (clusterAPI) foreign(t target) string {
	a := t.object.GetAnnotations()
	for _, key := range []string{annotationMinSize, annotationMaxSize} {
		if _, ok := a[key]; ok {
			return "cluster-autoscaler, by the annotation " + key
		}
	}
	if by, ok := a[annotationManagedBy]; ok {
		return fmt.Sprintf("%q, by the annotation %s", by, annotationManagedBy)
	}
	if owner := metav1.GetControllerOf(t.object); owner != nil {
		return fmt.Sprintf("%s %s, which owns it; name that one instead", owner.Kind, owner.Name)
	}
	for _, m := range t.object.GetManagedFields() {
		if m.Manager == topologyManager && owns(m.FieldsV1, "f:spec", "f:replicas") {
			return "the Cluster's topology; take replicas out of its spec.topology.workers"
		}
	}
	return ""
}

// owns reports whether a field is in an entry of managedFields.
func owns(f *metav1.FieldsV1, path ...string) bool {
	if f == nil {
		return false
	}
	var at map[string]json.RawMessage
	raw := json.RawMessage(f.GetRawBytes())
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
	key := map[string]string{kindMachineDeployment: labelDeployment, "MachineSet": labelSet}[t.object.GetKind()]
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(t.object.GroupVersionKind().GroupVersion().WithKind("MachineList"))
	err := c.live.List(ctx, list, client.InNamespace(t.object.GetNamespace()), client.MatchingLabels{key: t.object.GetName()})
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of %s: %w", t.name(), err)
	}
	return list.Items, nil
}

func (clusterAPI) node(machine *unstructured.Unstructured) (name, providerID string) {
	return stringAt(machine, "status", "nodeRef", "name"), stringAt(machine, "spec", "providerID")
}

// settled rejects growth while a marked Machine is not removed yet: if the replicas were raised too
// early, the controller would never see the lower number and remove nothing.
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
			return fmt.Errorf("%w: %s has not removed Machine %s yet", ErrBusy, t.name(), all[i].GetName())
		}
	}
	return nil
}

// passedOver reports whether the target's controller has processed the current replicas: a Machine
// that still exists was not the one it removed.
func (clusterAPI) passedOver(t target, machine *unstructured.Unstructured) bool {
	if machine.GetDeletionTimestamp() != nil {
		return false
	}
	seen, _, _ := unstructured.NestedInt64(t.object.Object, "status", "observedGeneration")
	want, _, _ := unstructured.NestedInt64(t.object.Object, "spec", "replicas")
	have, ok, _ := unstructured.NestedInt64(t.object.Object, "status", "replicas")
	return ok && seen == t.object.GetGeneration() && have == want
}

// remove marks the Machine and then lowers the replicas, in one write with the Machine's UID:
// interrupted at any point, a second try completes it.
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

// rolling reports whether Machines belong to more than one MachineSet.
func rolling(all []unstructured.Unstructured) bool {
	sets := map[string]bool{}
	for i := range all {
		sets[all[i].GetLabels()[labelSet]] = true
	}
	return len(sets) > 1
}

// gone returns a test for UIDs that no object in the list has.
func gone(all []unstructured.Unstructured) func(uid string) bool {
	there := map[string]bool{}
	for i := range all {
		there[string(all[i].GetUID())] = true
	}
	return func(uid string) bool { return !there[uid] }
}
