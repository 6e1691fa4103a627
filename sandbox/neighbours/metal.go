package neighbours

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var metal = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}

// metalFinalizer keeps an object until its nodes are gone.
const metalFinalizer = "metalmachine.infrastructure.cluster.x-k8s.io"

// uninitialized is the taint of a joining node, by the contract of Cluster API's bootstrap providers. The
// Machine controller removes it.
var uninitialized = corev1.Taint{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}

// Metal is an infrastructure provider of Cluster API. Its machines are KWOK's nodes in the same cluster as
// the Machines. It follows the contract v1beta2 for MetalMachines and MetalMachinePools, checked against the
// controllers of Cluster API 1.14.2, 2026-11.
type Metal struct {
	Client client.Client
	Nodes  Nodes
}

// MetalCRDs returns the CRDs of the provider's kinds as YAML. The version of a MetalControlPlane is what the
// object's author wrote.
func MetalCRDs() string {
	var b strings.Builder
	for _, kind := range []string{"MetalControlPlane", "MetalMachine", "MetalMachineTemplate", "MetalMachinePool"} {
		fmt.Fprintf(&b, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]ss.infrastructure.cluster.x-k8s.io, labels: {cluster.x-k8s.io/v1beta2: v1beta2}}
spec:
  group: infrastructure.cluster.x-k8s.io
  scope: Namespaced
  names: {kind: %[2]s, listKind: %[2]sList, plural: %[1]ss, singular: %[1]s}
  versions:
  - name: v1beta2
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---`, strings.ToLower(kind), kind)
	}
	return b.String()
}

// Run runs until ctx ends. It returns an error that it cannot recover from.
func (m *Metal) Run(ctx context.Context) error {
	return run(ctx, m.Client, map[schema.GroupVersionKind]func(context.Context, *unstructured.Unstructured) error{
		metal.WithKind("MetalMachine"): m.machine, metal.WithKind("MetalMachinePool"): m.pool,
	})
}

// machine keeps one node with the machine's name.
func (m *Metal) machine(ctx context.Context, u *unstructured.Unstructured) error {
	if u.GetDeletionTimestamp() != nil {
		return m.Nodes.remove(ctx, m.Client, u, metalFinalizer)
	}
	if id, _, _ := unstructured.NestedString(u.Object, "spec", "providerID"); id != "" {
		return nil
	}
	id, err := m.Nodes.Add(ctx, m.Client, u.GetName(), nil, uninitialized)
	if err != nil {
		return err
	}
	if err := m.spec(ctx, u, id, "providerID"); err != nil {
		return err
	}
	return writeStatus(ctx, m.Client, u, map[string]any{"initialization": map[string]any{"provisioned": true}})
}

// pool keeps as many nodes as its MachinePool has replicas, with the pool's labels. If there are too many,
// the newest are removed, since a cloud's group also chooses by its own rule.
func (m *Metal) pool(ctx context.Context, u *unstructured.Unstructured) error {
	owner := metav1.GetControllerOf(u)
	if owner == nil {
		return nil
	}
	set := &unstructured.Unstructured{}
	set.SetGroupVersionKind(capi.WithKind("MachinePool"))
	if err := m.Client.Get(ctx, client.ObjectKey{Namespace: u.GetNamespace(), Name: owner.Name}, set); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the owner of %s: %w", u.GetName(), err)
	}
	replicas, _, _ := unstructured.NestedInt64(set.Object, "spec", "replicas")
	if u.GetDeletionTimestamp() != nil {
		replicas = 0
	}
	have, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "providerIDList")
	labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "nodeLabels")
	ids := []any{}
	for i := range max(replicas, int64(len(have))) {
		name := fmt.Sprintf("%s-%d", u.GetName(), i)
		if i >= replicas {
			if err := m.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting node %s: %w", name, err)
			}
			continue
		}
		id := providerID(name)
		if i >= int64(len(have)) {
			if _, err := m.Nodes.Add(ctx, m.Client, name, labels, uninitialized); err != nil {
				return err
			}
		}
		ids = append(ids, id)
	}
	if u.GetDeletionTimestamp() != nil {
		return m.Nodes.remove(ctx, m.Client, u, metalFinalizer)
	}
	if len(ids) != len(have) || len(u.GetFinalizers()) == 0 {
		if err := m.spec(ctx, u, ids, "providerIDList"); err != nil {
			return err
		}
	}
	return writeStatus(ctx, m.Client, u, map[string]any{"ready": true, "replicas": replicas, "initialization": map[string]any{"provisioned": true}})
}

// spec sets a field and the finalizer.
func (m *Metal) spec(ctx context.Context, u *unstructured.Unstructured, value any, field string) error {
	return write(ctx, m.Client, u, func() {
		u.SetFinalizers([]string{metalFinalizer})
		_ = unstructured.SetNestedField(u.Object, value, "spec", field)
	})
}
