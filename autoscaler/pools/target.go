package pools

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// removingAnnotation on a scale target lists the UIDs of the machines that its replicas no longer
// count. It is written together with the replicas, so that a removal retried after a crash counts
// once.
const removingAnnotation = "gpuscale.io/removing"

// maxRemoving bounds the list; far more than one reconcile may remove.
const maxRemoving = 100

// fieldScale is the field in problems of a target.
const fieldScale = "spec.provider.scale"

// target is the resource whose replicas are the pool's nodes.
type target struct{ object *unstructured.Unstructured }

// machines is how a kind of target identifies its nodes.
type machines interface {
	// size is the last requested size. machines are those of t; the ones listed as being removed suffice.
	size(t target, machines []unstructured.Unstructured) (int, error)
	// resize requests size nodes. It counts again each machine whose removal was abandoned.
	resize(ctx context.Context, t target, size int) error
	// all lists the machines of t; node is the name and the providerID of a machine's node.
	all(ctx context.Context, t target) ([]unstructured.Unstructured, error)
	node(machine *unstructured.Unstructured) (name, providerID string)
	// foreign returns what else sizes the target, empty for nothing.
	foreign(t target) string
	// passedOver reports whether a machine that was to be removed still exists and will stay.
	passedOver(t target, machine *unstructured.Unstructured) bool
	// remove removes the machine, one of all, from t. It returns ErrStale where the size counts the machine and is not
	// above least.
	remove(ctx context.Context, t target, all []unstructured.Unstructured, machine *unstructured.Unstructured, least int) error
	// replace deletes the machine. The size stays, so its controller makes another.
	replace(ctx context.Context, t target, all []unstructured.Unstructured, machine *unstructured.Unstructured) error
}

// describe names a target in messages.
func describe(p *v1alpha1.ScaleProvider) string {
	if p.Namespace == "" {
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

// read gets the target's current state from the API server.
func (s *Scale) read(ctx context.Context, pool *v1alpha1.GPUNodePool) (target, error) {
	ref := pool.Spec.Provider.Scale
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return target{}, &Problem{ReasonTarget, fieldScale + ".apiVersion",
			fmt.Sprintf("%q is not an API version", ref.APIVersion), "want group/version, such as cluster.x-k8s.io/v1beta2"}
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gv.WithKind(ref.Kind))
	err = s.live.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, u)
	switch {
	case meta.IsNoMatchError(err):
		return target{}, &Problem{ReasonNoTarget, fieldScale + ".apiVersion",
			fmt.Sprintf("the cluster knows no kind %s in %s", ref.Kind, ref.APIVersion), "install its CRD, or correct apiVersion and kind"}
	case apierrors.IsNotFound(err):
		return target{}, &Problem{ReasonNoTarget, fieldScale + ".name",
			describe(ref) + " does not exist", "create it, or correct namespace and name"}
	case err != nil:
		return target{}, fmt.Errorf("getting %s: %w", describe(ref), err)
	case u.GetDeletionTimestamp() != nil:
		return target{}, &Problem{ReasonNoTarget, fieldScale + ".name", describe(ref) + " is being deleted", "delete the pool too, or name another"}
	}
	return target{object: u}, nil
}

// replicas reads spec.replicas.
func (t target) replicas() (int, error) {
	n, ok, err := unstructured.NestedInt64(t.object.Object, "spec", "replicas")
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s: spec.replicas: %w", t.name(), err)
	case !ok:
		return 0, &Problem{ReasonTarget, fieldScale + ".name", t.name() + " has no spec.replicas", "set it there to the size it has now"}
	}
	return int(n), nil
}

func (t target) name() string {
	return describe(&v1alpha1.ScaleProvider{Kind: t.object.GetKind(), Namespace: t.object.GetNamespace(), Name: t.object.GetName()})
}

// removing returns the UIDs that the size no longer counts.
func (t target) removing() []string {
	return strings.FieldsFunc(t.object.GetAnnotations()[removingAnnotation], func(r rune) bool { return r == ',' })
}

// write writes the replicas, and the limit on nodes unless it is empty. Neither counts the removed machines, nor those
// on the list that are still to go. The list keeps the newest maxRemoving machines.
func (t target) write(ctx context.Context, c client.Client, kind machines, all []unstructured.Unstructured, replicas int, limit string, removed ...types.UID) error {
	before, leaves := t.object.DeepCopy(), map[string]bool{}
	for i := range all {
		leaves[string(all[i].GetUID())] = t.leaves(kind, &all[i])
	}
	uids := slices.DeleteFunc(t.removing(), func(uid string) bool { return !leaves[uid] })
	for _, uid := range removed {
		uids = append(uids, string(uid))
	}
	if len(uids)+len(t.removing()) > 0 {
		set(t.object, strings.Join(uids[max(0, len(uids)-maxRemoving):], ","), "metadata", "annotations", removingAnnotation)
	}
	set(t.object, int64(replicas), "spec", "replicas")
	if limit != "" {
		set(t.object, limit, "spec", "limits", "nodes")
	}
	return patch(ctx, c, before, t.object, "resizing")
}

// set sets a field. It cannot fail: what is on its path is absent, or has been read as an object.
func set(u *unstructured.Unstructured, value any, path ...string) {
	_ = unstructured.SetNestedField(u.Object, value, path...)
}

// machines lists the objects of a kind that have a label with the name of t.
func (t target) machines(ctx context.Context, live client.Reader, kind, label string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(t.object.GroupVersionKind().GroupVersion().WithKind(kind + "List"))
	if err := live.List(ctx, list, client.InNamespace(t.object.GetNamespace()), client.MatchingLabels{label: t.object.GetName()}); err != nil {
		return nil, fmt.Errorf("listing the %ss of %s: %w", kind, t.name(), err)
	}
	return list.Items, nil
}

// removed returns the machines on the list of removed ones that still exist, and the size. It lists machines only if
// there is such a list: there may be thousands.
func (t target) removed(ctx context.Context, kind machines) (out []unstructured.Unstructured, size int, err error) {
	if len(t.removing()) > 0 {
		if out, err = kind.all(ctx, t); err != nil {
			return nil, 0, err
		}
		out = slices.DeleteFunc(out, func(m unstructured.Unstructured) bool { return !t.uncounted(&m) })
	}
	size, err = kind.size(t, out)
	return out, size, err
}

// find returns the machine of the node; ErrUnnamed without one.
func (t target) find(kind machines, all []unstructured.Unstructured, node *corev1.Node) (*unstructured.Unstructured, error) {
	for i := range all {
		name, id := kind.node(&all[i])
		switch {
		case name != node.Name:
		case id != node.Spec.ProviderID:
			return nil, fmt.Errorf("%w: %s %s names it with providerID %q, the node's is %q", ErrUnnamed, all[i].GetKind(), all[i].GetName(), id, node.Spec.ProviderID)
		default:
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("%w: %s has no machine for it", ErrUnnamed, t.name())
}

// stringAt is the string at a path of an object, empty for none.
func stringAt(u *unstructured.Unstructured, path ...string) string {
	text, _, _ := unstructured.NestedString(u.Object, path...)
	return text
}

// condition returns the status of a condition, empty without it.
func condition(u *unstructured.Unstructured, of string) string {
	for _, path := range [][]string{{"status", "conditions"}, {"status", "v1beta2", "conditions"}} { // the second in Cluster API's v1beta1
		conditions, _, _ := unstructured.NestedSlice(u.Object, path...)
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == of {
				return stringAt(&unstructured.Unstructured{Object: c}, "status")
			}
		}
	}
	return ""
}

// LastPart of a providerID identifies a machine within its pool.
func LastPart(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}

// uncounted reports whether the size no longer counts the machine.
func (t target) uncounted(machine *unstructured.Unstructured) bool {
	return slices.Contains(t.removing(), string(machine.GetUID()))
}

// leaves reports whether the size no longer counts the machine, and its controller is still to remove it.
func (t target) leaves(kind machines, machine *unstructured.Unstructured) bool {
	return t.uncounted(machine) && !kind.passedOver(t, machine)
}
