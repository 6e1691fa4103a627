package neighbours

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// Nodes describes the nodes that a fake creates.
type Nodes struct {
	// Offers are their resources, including GPUs.
	Offers corev1.ResourceList
	// Labels are added to those of the template: the labels that GFD would add.
	Labels map[string]string
}

func providerID(node string) string { return "fake:///" + node }

// Add creates a node unless it exists, and returns its providerID.
func (n Nodes) Add(ctx context.Context, c client.Client, name string, labels map[string]string, taints ...corev1.Taint) (string, error) {
	id := providerID(name)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: merged(labels, n.Labels), Annotations: map[string]string{cluster.AnnotationFake: "fake"}},
		Spec:       corev1.NodeSpec{ProviderID: id, Taints: taints},
		Status:     corev1.NodeStatus{Capacity: n.Offers, Allocatable: n.Offers},
	}
	if err := c.Create(ctx, node); client.IgnoreAlreadyExists(err) != nil {
		return "", fmt.Errorf("making node %s: %w", name, err)
	}
	return id, nil
}

// remove deletes the node of a machine, and then the machine's finalizer.
func (n Nodes) remove(ctx context.Context, c client.Client, machine *unstructured.Unstructured, finalizer string) error {
	err := c.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.GetName()}})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting node %s: %w", machine.GetName(), err)
	}
	return write(ctx, c, machine, func() {
		machine.SetFinalizers(slices.DeleteFunc(machine.GetFinalizers(), func(f string) bool { return f == finalizer }))
	})
}

func merged(a, b map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, a)
	maps.Copy(out, b)
	return out
}

func list(ctx context.Context, c client.Client, gvk schema.GroupVersionKind, labels map[string]string) ([]unstructured.Unstructured, error) {
	out := &unstructured.UnstructuredList{}
	out.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := c.List(ctx, out, client.MatchingLabels(labels)); err != nil {
		return nil, fmt.Errorf("listing %ss: %w", gvk.Kind, err)
	}
	return out.Items, nil
}

// run calls the function for each object of its kind, repeatedly until ctx ends. A conflict is retried the
// next time.
func run(ctx context.Context, c client.Client, turns map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured) error) error {
	pass := func() error {
		for kind, turn := range turns {
			all, err := list(ctx, c, kind, nil)
			if err != nil {
				return err
			}
			for i := range all {
				if err := turn(ctx, &all[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for ctx.Err() == nil {
		if err := pass(); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(passEvery):
		}
	}
	return nil
}

// write changes an object if it still exists.
func write(ctx context.Context, c client.Client, u *unstructured.Unstructured, change func()) error {
	before := u.DeepCopy()
	change()
	if err := c.Patch(ctx, u, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

// writeStatus sets fields in the status of an object if it still exists.
func writeStatus(ctx context.Context, c client.Client, u *unstructured.Unstructured, fields map[string]any) error {
	before := u.DeepCopy()
	for name, value := range fields {
		if err := unstructured.SetNestedField(u.Object, value, "status", name); err != nil {
			return fmt.Errorf("%s %s: %w", u.GetKind(), u.GetName(), err)
		}
	}
	if err := c.Status().Patch(ctx, u, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}
