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

// passEvery is how often a fake looks at the cluster.
const passEvery = 100 * time.Millisecond

// Names of Cluster API's contract, as its book has them.
const (
	machineFinalizer = "machine.cluster.x-k8s.io"
	deleteMachine    = "cluster.x-k8s.io/delete-machine"
	labelDeployment  = "cluster.x-k8s.io/deployment-name"
	labelSet         = "cluster.x-k8s.io/set-name"
)

var capi = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}

// Machines plays Cluster API's MachineDeployment, MachineSet and Machine
// controllers: it keeps as many Machines as a MachineDeployment has replicas, each
// with a KWOK node. Where there are too many, those go first that carry the
// delete-machine annotation, and then the oldest ones.
type Machines struct {
	Client client.Client
	Nodes  Nodes
}

// Run plays until ctx ends; an error it could not go on from is returned.
func (m *Machines) Run(ctx context.Context) error {
	return run(ctx, func(ctx context.Context) error {
		deployments, err := list(ctx, m.Client, capi.WithKind("MachineDeployment"), nil)
		if err != nil {
			return err
		}
		for i := range deployments {
			if err := m.turn(ctx, &deployments[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (m *Machines) turn(ctx context.Context, d *unstructured.Unstructured) error {
	all, err := list(ctx, m.Client, capi.WithKind("Machine"), map[string]string{labelDeployment: d.GetName()})
	if err != nil {
		return err
	}
	want, _, _ := unstructured.NestedInt64(d.Object, "spec", "replicas")
	var live []*unstructured.Unstructured
	for i := range all {
		if all[i].GetDeletionTimestamp() == nil {
			live = append(live, &all[i])
			continue
		}
		if err := m.Nodes.remove(ctx, m.Client, &all[i], machineFinalizer); err != nil {
			return err
		}
	}
	for n := int64(len(live)); n < want; n++ {
		if err := m.add(ctx, d); err != nil {
			return err
		}
	}
	for _, victim := range surplus(live, int(want)) {
		if err := m.Client.Delete(ctx, victim); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Machine %s: %w", victim.GetName(), err)
		}
	}
	return m.status(ctx, d, min(int64(len(live)), want))
}

// surplus are the Machines that go.
func surplus(live []*unstructured.Unstructured, want int) []*unstructured.Unstructured {
	marked := func(u *unstructured.Unstructured) int {
		if _, ok := u.GetAnnotations()[deleteMachine]; ok {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(live, func(a, b *unstructured.Unstructured) int {
		made, than := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(cmp.Compare(marked(a), marked(b)), made.Compare(than.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return live[:max(0, len(live)-want)]
}

// add makes a Machine, and at once its node.
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
	// The node has the Machine's name; a real one its infrastructure's.
	id, err := m.Nodes.add(ctx, m.Client, u.GetName(), labels)
	if err != nil {
		return err
	}
	before := u.DeepCopy()
	_ = unstructured.SetNestedField(u.Object, id, "spec", "providerID")
	if err := m.Client.Patch(ctx, u, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing Machine %s: %w", u.GetName(), err)
	}
	before = u.DeepCopy()
	_ = unstructured.SetNestedField(u.Object, u.GetName(), "status", "nodeRef", "name")
	if err := m.Client.Status().Patch(ctx, u, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status of Machine %s: %w", u.GetName(), err)
	}
	return nil
}

func (m *Machines) status(ctx context.Context, d *unstructured.Unstructured, replicas int64) error {
	before := d.DeepCopy()
	_ = unstructured.SetNestedField(d.Object, replicas, "status", "replicas")
	_ = unstructured.SetNestedField(d.Object, d.GetGeneration(), "status", "observedGeneration")
	_ = unstructured.SetNestedField(d.Object, labelDeployment+"="+d.GetName(), "status", "selector")
	if err := m.Client.Status().Patch(ctx, d, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of MachineDeployment %s: %w", d.GetName(), err)
	}
	return nil
}
