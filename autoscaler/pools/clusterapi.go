package pools

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Names of Cluster API's contract.
const (
	capiGroup           = "cluster.x-k8s.io"
	deleteMachine       = "cluster.x-k8s.io/delete-machine"
	markedBy            = "gpuscale" // our value of deleteMachine
	labelSet            = "cluster.x-k8s.io/set-name"
	annotationMinSize   = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	annotationMaxSize   = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	annotationManagedBy = "cluster.x-k8s.io/replicas-managed-by"
	annotationPaused    = "cluster.x-k8s.io/paused"
	kindMachinePool     = "MachinePool"
	revisionAnnotation  = "machinedeployment.clusters.x-k8s.io/revision"
	topologyManager     = "capi-topology"
)

// machineLabels are the labels of Machines with the name of their target, by its kind.
var machineLabels = map[string]string{
	"MachineDeployment": "cluster.x-k8s.io/deployment-name", "MachineSet": labelSet, kindMachinePool: "cluster.x-k8s.io/pool-name",
}

// clusterAPI identifies nodes by their Machines: when the replicas are lowered, a Machine with the
// delete-machine annotation goes first. A MachinePool has no such rule: its infrastructure lowers a
// group of the cloud, which chooses the instance (CAPA v2.9: exp/controllers/awsmachinepool), so it
// only scales up.
type clusterAPI struct {
	client client.Client
	live   client.Reader
}

func (clusterAPI) size(t target, _ []unstructured.Unstructured) (int, error) { return t.replicas() }

// resize raises the replicas only after the controller has begun to delete each marked Machine: otherwise it would
// never see the lower number, and would not delete them. It lowers the replicas only while no MachineSet is outdated:
// Machines of an outdated one would be removed.
func (c clusterAPI) resize(ctx context.Context, t target, size int) error {
	removed, have, err := t.removed(ctx, c)
	if err != nil {
		return err
	}
	for i := range removed {
		if size > have && removed[i].GetDeletionTimestamp() == nil && t.leaves(c, &removed[i]) {
			return fmt.Errorf("%w: %s has not removed Machine %s yet", ErrBusy, t.name(), removed[i].GetName())
		}
	}
	if size < have {
		all, err := c.all(ctx, t)
		if err != nil {
			return err
		}
		if outdated, err := c.outdated(ctx, t, setsOf(all)); err != nil || len(outdated) > 0 {
			return cmp.Or(err, fmt.Errorf("%w: %s shrinks its outdated MachineSets %v first", ErrUnnamed, t.name(), outdated))
		}
	}
	return t.write(ctx, c.client, c, removed, size, "")
}

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
		if m.Manager == topologyManager && owns(m.FieldsV1, "spec", "replicas") {
			return "the Cluster's topology; take replicas out of its spec.topology.workers as docs/pools.md says, since Cluster API would set it to 1"
		}
	}
	return ""
}

// paused reports whether Cluster API does nothing about the target: its own annotation says so, or, by a condition of
// v1.9 and newer, its Cluster (util/paused). With spec.paused alone a MachineDeployment is still scaled.
func (t target) paused() bool {
	_, annotated := t.object.GetAnnotations()[annotationPaused]
	return annotated || condition(t.object, "Paused") == "True"
}

// owns reports whether a field is in an entry of managedFields.
func owns(f *metav1.FieldsV1, path ...any) bool {
	var set fieldpath.Set
	return f != nil && set.FromJSON(f.GetRawReader()) == nil && set.Has(fieldpath.MakePathOrDie(path...))
}

// all lists the Machines of the target.
func (c clusterAPI) all(ctx context.Context, t target) ([]unstructured.Unstructured, error) {
	return t.machines(ctx, c.live, "Machine", machineLabels[t.object.GetKind()])
}

func (clusterAPI) node(machine *unstructured.Unstructured) (name, providerID string) {
	return stringAt(machine, "status", "nodeRef", "name"), stringAt(machine, "spec", "providerID")
}

// passedOver reports whether the target's controller has processed the current replicas: a Machine
// that still exists was not the one it removed.
func (clusterAPI) passedOver(t target, machine *unstructured.Unstructured) bool {
	if machine.GetDeletionTimestamp() != nil {
		return false
	}
	want, _, _ := unstructured.NestedInt64(t.object.Object, "spec", "replicas")
	have, ok, _ := unstructured.NestedInt64(t.object.Object, "status", "replicas")
	return ok && t.observed() && have == want
}

// observed reports whether the target's controller has seen its current spec.
func (t target) observed() bool {
	seen, _, _ := unstructured.NestedInt64(t.object.Object, "status", "observedGeneration")
	return seen == t.object.GetGeneration()
}

// remove marks the Machine and then lowers the replicas, in one write with the Machine's UID:
// interrupted at any point, a second try completes it.
func (c clusterAPI) remove(ctx context.Context, t target, all []unstructured.Unstructured, machine *unstructured.Unstructured, least int) error {
	if machine.GetDeletionTimestamp() != nil || t.leaves(c, machine) {
		return nil
	}
	replicas, err := t.replicas()
	if err = cmp.Or(err, shrinks(replicas, least)); err != nil {
		return err
	}
	if err := c.mayShrink(ctx, t, all, machine, replicas); err != nil {
		return err
	}
	// Of several marked Machines Cluster API removes the first by name (v1.14: machineset_deletion_order.go). So the
	// mark is removed from Machines that the size still counts. It is left from a removal that was interrupted before
	// the replicas were lowered, and pods may run there by now. A mark of another client stays.
	for i := range all {
		m := &all[i]
		by, marked := m.GetAnnotations()[deleteMachine]
		switch {
		case !marked || m.GetUID() == machine.GetUID() || m.GetDeletionTimestamp() != nil || t.leaves(c, m):
		case by != markedBy && m.GetName() < machine.GetName():
			return fmt.Errorf("%w: %s removes Machine %s first, which another client has marked by the annotation %s", ErrUnnamed, t.name(), m.GetName(), deleteMachine)
		case by == markedBy:
			if err := c.mark(ctx, m, false); err != nil {
				return err
			}
		}
	}
	if err := c.mark(ctx, machine, true); err != nil {
		return err
	}
	return t.write(ctx, c.client, c, all, replicas-1, "", machine.GetUID())
}

// replace first puts the Machine on the list of removed ones, so that its node is not counted while it is deleted.
func (c clusterAPI) replace(ctx context.Context, t target, all []unstructured.Unstructured, machine *unstructured.Unstructured) error {
	switch {
	case machine.GetDeletionTimestamp() != nil:
		return nil // terminating already
	case t.leaves(c, machine):
		return fmt.Errorf("%w: %s is removing it already", ErrBusy, t.name())
	}
	replicas, err := t.replicas()
	if err != nil {
		return err
	}
	if err := t.write(ctx, c.client, c, all, replicas, "", machine.GetUID()); err != nil {
		return err
	}
	return remove(ctx, c.client, machine)
}

// mark sets or removes the annotation by which Cluster API removes a Machine before others.
func (c clusterAPI) mark(ctx context.Context, machine *unstructured.Unstructured, on bool) error {
	if _, marked := machine.GetAnnotations()[deleteMachine]; marked == on {
		return nil
	}
	before := machine.DeepCopy()
	if on {
		set(machine, markedBy, "metadata", "annotations", deleteMachine)
	} else {
		unstructured.RemoveNestedField(machine.Object, "metadata", "annotations", deleteMachine)
	}
	return patch(ctx, c.client, before, machine, "marking")
}

// mayShrink returns why a target with fewer replicas might not remove the marked Machine:
//
//   - Another Machine is being deleted, and its replacement is not there. It counts as a replica until it is gone, so
//     Cluster API removes it in place of the marked one (v1.14: machineset_deletion_order.go). Until it has drained
//     both Machines stay, and resize could not raise the size.
//   - A rollout moves the replicas of a MachineDeployment between its MachineSets: which of them shrinks is open.
//   - With the strategy OnDelete several MachineSets may exist for long, and an outdated one shrinks first.
func (c clusterAPI) mayShrink(ctx context.Context, t target, all []unstructured.Unstructured, machine *unstructured.Unstructured, replicas int) error {
	stay, going := 0, ""
	for i := range all {
		if all[i].GetDeletionTimestamp() != nil {
			going = all[i].GetName()
		} else if !t.leaves(c, &all[i]) {
			stay++
		}
	}
	if going != "" && stay < replicas {
		return fmt.Errorf("%w: Machine %s is being deleted, and %s has not replaced it yet", ErrBusy, going, t.name())
	}
	sets := setsOf(all)
	if len(sets) < 2 {
		return nil
	}
	strategy := cmp.Or(stringAt(t.object, "spec", "rollout", "strategy", "type"), stringAt(t.object, "spec", "strategy", "type"))
	if strategy != "OnDelete" || !t.observed() {
		return fmt.Errorf("%w: %s has Machines of more than one MachineSet, a rollout is under way", ErrBusy, t.name())
	}
	outdated, err := c.outdated(ctx, t, sets)
	if own := machine.GetLabels()[labelSet]; err == nil && !slices.Equal(outdated, []string{own}) {
		return fmt.Errorf("%w: %s shrinks its outdated MachineSets %v first, and Machine %s is of %s", ErrUnnamed, t.name(), outdated, machine.GetName(), own)
	}
	return err
}

// setsOf returns the MachineSets of Machines, sorted.
func setsOf(all []unstructured.Unstructured) []string {
	var out []string
	for i := range all {
		out = append(out, all[i].GetLabels()[labelSet])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// outdated returns the MachineSets whose revision is not that of their MachineDeployment. When replicas are lowered,
// Cluster API shrinks these first (v1.9 to v1.14: machinedeployment_rollout_ondelete.go). Which of several it shrinks
// differs between versions.
func (c clusterAPI) outdated(ctx context.Context, t target, sets []string) ([]string, error) {
	var out []string
	for _, name := range sets {
		var set metav1.PartialObjectMetadata
		set.SetGroupVersionKind(t.object.GroupVersionKind().GroupVersion().WithKind("MachineSet"))
		if err := c.live.Get(ctx, client.ObjectKey{Namespace: t.object.GetNamespace(), Name: name}, &set); err != nil {
			return nil, fmt.Errorf("getting MachineSet %s: %w", name, err)
		}
		if set.Annotations[revisionAnnotation] != t.object.GetAnnotations()[revisionAnnotation] {
			out = append(out, name)
		}
	}
	return out, nil
}
