package neighbours

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// passEvery is the interval at which a fake reads the cluster.
const passEvery = 100 * time.Millisecond

// Names of Cluster API's contract, from its book.
const (
	machineFinalizer = "machine.cluster.x-k8s.io"
	deleteMachine    = "cluster.x-k8s.io/delete-machine"
	labelDeployment  = "cluster.x-k8s.io/deployment-name"
	labelSet         = "cluster.x-k8s.io/set-name"
)

var capi = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}

// Machines fakes Cluster API's controllers of MachineDeployment, MachineSet and Machine: it keeps as many
// Machines as the MachineDeployment has replicas, each with a KWOK node. A Machine that is being deleted
// counts until it is gone. If there are too many, it removes first those that are already being deleted, then
// those with the delete-machine annotation, then those without a node, then by name. That is the default
// order, Random, of core/reconcilers/machineset/machineset_deletion_order.go of Cluster API 1.14.2, compared on
// 2026-11-29. Conditions do not count: nodes here are healthy, and no update is in place.
type Machines struct {
	Client client.Client
	Nodes  Nodes
}

// Run runs until ctx ends. It returns an error that it cannot recover from.
func (m *Machines) Run(ctx context.Context) error {
	return run(ctx, m.Client, map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured) error{capi.WithKind("MachineDeployment"): m.turn})
}

func (m *Machines) turn(ctx context.Context, d *unstructured.Unstructured) error {
	all, err := list(ctx, m.Client, capi.WithKind("Machine"), map[string]string{labelDeployment: d.GetName()})
	if err != nil {
		return err
	}
	replicas, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
	want := int(replicas)
	for n := len(all); n < want; n++ {
		if err := m.add(ctx, d); err != nil {
			return err
		}
	}
	for i := range all {
		if all[i].GetDeletionTimestamp() == nil {
			continue
		}
		if err := m.Nodes.remove(ctx, m.Client, &all[i], machineFinalizer); err != nil {
			return err
		}
	}
	for i := range surplus(all, want) {
		if victim := &all[i]; victim.GetDeletionTimestamp() == nil {
			if err := m.Client.Delete(ctx, victim); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting Machine %s: %w", victim.GetName(), err)
			}
		}
	}
	return writeStatus(ctx, m.Client, d, map[string]any{
		"replicas": int64(len(all)), "observedGeneration": d.GetGeneration(), "selector": labelDeployment + "=" + d.GetName(),
	})
}

// surplus returns how many of the Machines must go, and sorts these to the front.
func surplus(all []unstructured.Unstructured, want int) int {
	turn := func(u unstructured.Unstructured) int {
		_, marked := u.GetAnnotations()[deleteMachine]
		node, _, _ := unstructured.NestedString(u.Object, "status", "nodeRef", "name")
		switch {
		case u.GetDeletionTimestamp() != nil:
			return 0
		case marked:
			return 1
		case node == "":
			return 2
		}
		return 3
	}
	slices.SortFunc(all, func(a, b unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(turn(a), turn(b)), cmp.Compare(a.GetName(), b.GetName()))
	})
	return max(0, len(all)-want)
}

// add creates a Machine and its node at once.
func (m *Machines) add(ctx context.Context, d *unstructured.Unstructured) error {
	spec, _, _ := unstructured.NestedMap(d.Object, "spec", "template", "spec")
	labels, _, _ := unstructured.NestedStringMap(d.Object, "spec", "template", "metadata", "labels")
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(capi.WithKind("Machine"))
	u.SetNamespace(d.GetNamespace())
	u.SetGenerateName(d.GetName() + "-")
	u.SetFinalizers([]string{machineFinalizer})
	u.SetLabels(merged(labels, map[string]string{labelDeployment: d.GetName(), labelSet: d.GetName() + "-0"}))
	if err := m.Client.Create(ctx, u); err != nil {
		return fmt.Errorf("making a Machine: %w", err)
	}
	// The node has the Machine's name. In a real cluster the infrastructure names it.
	id, err := m.Nodes.Add(ctx, m.Client, u.GetName(), labels)
	if err != nil {
		return err
	}
	if err := write(ctx, m.Client, u, func() { _ = unstructured.SetNestedField(u.Object, id, "spec", "providerID") }); err != nil {
		return err
	}
	return writeStatus(ctx, m.Client, u, map[string]any{"nodeRef": map[string]any{"name": u.GetName()}})
}
