package chart

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// trouble is a test that breaks something and repairs it at its end.
type trouble struct {
	*env
	t *testing.T
}

func (x *trouble) must(err error) {
	x.t.Helper()
	require.NoError(x.t, err)
}

// cleanup undoes a change at the end of the test. It gets its own context, since the test's context has ended
// then.
func (x *trouble) cleanup(do func(context.Context) error) { testenv.Cleanup(x.t, do) }

// wait waits until ok returns nil.
func (x *trouble) wait(what string, ok func() error) {
	x.t.Helper()
	await.For(x.t, testenv.Patience, what, ok)
}

// add creates objects. At the end of the test they are deleted, and it waits until they are gone.
func (x *trouble) add(text string) {
	x.t.Helper()
	objects, err := neighbours.Parse([]byte(text))
	x.must(err)
	x.addObjects(objects)
}

func (x *trouble) addObjects(objects []*unstructured.Unstructured) {
	x.t.Helper()
	for _, o := range objects {
		err := x.CreateObject(x.t.Context(), o)
		if o.GetKind() == "CustomResourceDefinition" && apierrors.IsAlreadyExists(err) {
			continue // another test has objects of this project
		}
		x.must(err)
		x.cleanup(func(ctx context.Context) error { return x.Delete(ctx, o.DeepCopy()) })
	}
}

// keep restores an object at the end of the test to its current state, even if the test has deleted it or a
// printed command has changed it.
func (x *trouble) keep(o *unstructured.Unstructured) *unstructured.Unstructured {
	x.t.Helper()
	was := like(o)
	x.must(x.Admin.Get(x.t.Context(), keyOf(was), was))
	x.cleanup(func(ctx context.Context) error {
		return until(ctx, "putting back "+was.GetName(), func() error {
			now := like(was)
			err := x.Admin.Get(ctx, keyOf(now), now)
			back := ours(was)
			if apierrors.IsNotFound(err) {
				return x.Admin.Create(ctx, back)
			}
			if err != nil {
				return err
			}
			// Type and address of the Service are set by this test environment, not by Helm.
			if back.GetAnnotations()["meta.helm.sh/release-name"] != "" && back.GetKind() != "Service" {
				if err := asHelm(ctx, x.Admin, back); err != nil {
					return err
				}
				// No other manager may own a field that Helm will change.
				if err := x.Admin.Get(ctx, keyOf(now), now); err != nil {
					return err
				}
				now.SetManagedFields(slices.DeleteFunc(now.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager != "helm" && f.Subresource == "" }))
				return x.Admin.Update(ctx, now)
			}
			back.SetResourceVersion(now.GetResourceVersion())
			back.SetUID(now.GetUID())
			return x.Admin.Update(ctx, back)
		})
	})
	return was.DeepCopy()
}

// ours returns an object without the fields that the API server sets.
func ours(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "uid", "creationTimestamp", "generation", "resourceVersion"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	return o
}

// asHelm writes an object as Helm does, so that Helm owns its fields: Helm does not overwrite fields of other
// owners.
func asHelm(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch(types.ApplyYAMLPatchType, text), client.FieldOwner("helm"), client.ForceOwnership)
}

// like returns an empty object with the same kind and name.
func like(o *unstructured.Unstructured) *unstructured.Unstructured {
	return testenv.Object(o.GetAPIVersion()+"/"+o.GetKind(), o.GetNamespace(), o.GetName())
}

// patch changes fields of an object until the test ends.
func (x *trouble) patch(text string) {
	x.t.Helper()
	objects, err := neighbours.Parse([]byte(text))
	x.must(err)
	x.patchObject(objects[0])
}

func (x *trouble) patchObject(o *unstructured.Unstructured) {
	x.t.Helper()
	x.keep(o)
	text, err := o.MarshalJSON()
	x.must(err)
	x.must(x.Admin.Patch(x.t.Context(), o.DeepCopy(), client.RawPatch(types.MergePatchType, text)))
}

// change is for changes that cannot be written as a merge patch.
func (x *trouble) change(kind, namespace, name string, do func(*unstructured.Unstructured), options ...client.UpdateOption) {
	x.t.Helper()
	now := testenv.Object(kind, namespace, name)
	x.keep(now)
	x.wait("changing "+name, func() error {
		if err := x.Admin.Get(x.t.Context(), keyOf(now), now); err != nil {
			return await.Final(err)
		}
		do(now)
		return x.Admin.Update(x.t.Context(), now, options...)
	})
}
