package pools

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// world is a cluster with three nodes, w-0 to w-2, made by one scale target. The tests play the
// target's controller; the real control plane and an independent controller are in
// sandbox/neighbours.
type world struct {
	t      *testing.T
	client client.WithWatch
	scale  *Scale
	pool   *v1alpha1.GPUNodePool
	// dieAt is the number of the last write, from 1, before the program dies: 0 for never.
	dieAt, writes int
}

var errKilled = errors.New("killed")

// after counts a write; the one at which the program dies takes effect, but its result is lost.
func (w *world) after() error {
	w.writes++
	if w.writes == w.dieAt {
		return errKilled
	}
	return nil
}

var kinds = []schema.GroupVersionKind{
	{Group: capiGroup, Version: "v1beta2", Kind: "MachineDeployment"},
	{Group: capiGroup, Version: "v1beta2", Kind: "MachineSet"},
	{Group: capiGroup, Version: "v1beta2", Kind: "Machine"},
	{Group: karpenterGroup, Version: "v1", Kind: "NodePool"},
	{Group: karpenterGroup, Version: "v1", Kind: "NodeClaim"},
	{Group: capiGroup, Version: "v1beta2", Kind: kindMachinePool},
}

func newScaleWorld(t *testing.T, ref v1alpha1.ScaleProvider, objects ...client.Object) *world {
	t.Helper()
	types := scheme.New()
	for _, gvk := range kinds {
		types.AddKnownTypeWithName(gvk, &unstructured.Unstructured{})
		types.AddKnownTypeWithName(gvk.GroupVersion().WithKind(gvk.Kind+"List"), &unstructured.UnstructuredList{})
	}
	w := &world{t: t}
	w.client = fake.NewClientBuilder().WithScheme(types).WithObjects(objects...).
		WithInterceptorFuncs(interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := c.Patch(ctx, o, p, opts...); err != nil {
					return err
				}
				return w.after()
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := c.Delete(ctx, o, opts...); err != nil {
					return err
				}
				return w.after()
			},
		}).Build()
	w.pool = testPool()
	w.pool.Spec.Provider = v1alpha1.Provider{Scale: &ref}
	w.restart()
	return w
}

// restart is a new process without any cached state.
func (w *world) restart() { w.scale = NewScale(w.client, w.client) }

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	var n corev1.Node
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: name}, &n); err != nil {
		w.t.Fatal(err)
	}
	return &n
}

func (w *world) target() *unstructured.Unstructured {
	w.t.Helper()
	ref := w.pool.Spec.Provider.Scale
	return w.object(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind), ref.Namespace, ref.Name)
}

func (w *world) object(gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, u); err != nil {
		w.t.Fatal(err)
	}
	return u
}

// marked are the machines that are marked for removal.
func (w *world) marked() (out []string) {
	w.t.Helper()
	for _, kind := range []schema.GroupVersionKind{kinds[2], kinds[4]} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := w.client.List(w.t.Context(), list); err != nil {
			w.t.Fatal(err)
		}
		for _, m := range list.Items {
			if _, ok := m.GetAnnotations()[deleteMachine]; ok || m.GetDeletionTimestamp() != nil {
				out = append(out, m.GetName())
			}
		}
	}
	return out
}

func (w *world) listing() Listing {
	w.t.Helper()
	l, err := w.scale.List(w.t.Context(), w.pool)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

func (w *world) listed() int     { return w.listing().Target }
func (w *world) going() []string { return w.listing().Going }

func (w *world) update(o client.Object, change func(u *unstructured.Unstructured)) {
	w.t.Helper()
	u := o.(*unstructured.Unstructured)
	change(u)
	if err := w.client.Update(w.t.Context(), u); err != nil {
		w.t.Fatal(err)
	}
}

func object(gvk schema.GroupVersionKind, namespace, name string, labels map[string]string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(gvk)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetUID(types.UID("uid-of-" + name))
	u.SetLabels(labels)
	return u
}

func members() []client.Object {
	var out []client.Object
	for i := range 3 {
		name := fmt.Sprintf("w-%d", i)
		out = append(out, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{v1alpha1.NodePoolLabel: "p"}},
			Spec:       corev1.NodeSpec{ProviderID: "fake://" + name},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}},
		})
	}
	return out
}

var deploymentRef = v1alpha1.ScaleProvider{APIVersion: capiGroup + "/v1beta2", Kind: kindMachineDeployment, Namespace: "fleet", Name: "h100"}

// capiObjects are a MachineDeployment of three, its Machines and their nodes.
func capiObjects() []client.Object {
	out := append(members(), object(kinds[0], "fleet", "h100", nil, map[string]any{"spec": map[string]any{"replicas": int64(3)}}))
	for i := range 3 {
		node := fmt.Sprintf("w-%d", i)
		out = append(out, object(kinds[2], "fleet", fmt.Sprintf("m-%d", i), map[string]string{labelDeployment: "h100", labelSet: "h100-abc"}, map[string]any{
			"spec":   map[string]any{"providerID": "fake://" + node},
			"status": map[string]any{"nodeRef": map[string]any{"name": node}},
		}))
	}
	return out
}

var nodePoolRef = v1alpha1.ScaleProvider{APIVersion: karpenterGroup + "/v1", Kind: "NodePool", Name: "h100"}

// karpenterObjects are a static NodePool of three, its NodeClaims and their nodes.
func karpenterObjects() []client.Object {
	out := append(members(), object(kinds[3], "", "h100", nil, map[string]any{"spec": map[string]any{"replicas": int64(3)}}))
	for i := range 3 {
		node := fmt.Sprintf("w-%d", i)
		claim := object(kinds[4], "", fmt.Sprintf("c-%d", i), map[string]string{labelKarpenterFor: "h100"}, map[string]any{
			"status": map[string]any{"nodeName": node, "providerID": "fake://" + node},
		})
		claim.SetFinalizers([]string{"karpenter.sh/termination"})
		out = append(out, claim)
	}
	return out
}
