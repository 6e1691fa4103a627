package explain

import (
	"context"
	"fmt"
	"slices"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/adapter/provider"
)

// object identifies an object in the HPA's namespace.
type object struct {
	schema.GroupKind
	name string
}

func objectOf(apiVersion, kind, name string) object {
	return object{schema.FromAPIVersionAndKind(apiVersion, kind).GroupKind(), name}
}

func described(ref autoscaling.CrossVersionObjectReference) object {
	return objectOf(ref.APIVersion, ref.Kind, ref.Name)
}

var (
	serviceKind    = schema.GroupKind{Kind: "Service"}
	replicaSetKind = schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}
)

// resourceOf is the resource of a kind.
func resourceOf(ref autoscaling.CrossVersionObjectReference) schema.GroupVersionResource {
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	return gvr
}

// Above reads the objects that metrics of type Object name beside the target:
// Services, owners of owners, other scales. Call it when the HPA's spec is final.
func (c Cluster) Above(ctx context.Context, w *World) error {
	between := false
	for _, m := range w.HPA.Spec.Metrics {
		if m.Type != autoscaling.ObjectMetricSourceType || m.Object == nil {
			continue
		}
		ref := m.Object.DescribedObject
		o := described(ref)
		switch {
		case ref.Kind == "Pod" || ref.Kind == "Namespace":
			continue
		case o.GroupKind == serviceKind:
			if err := c.service(ctx, w, ref.Name); err != nil {
				return err
			}
			continue
		case !w.isTarget(ref):
			s, err := c.scaleOf(ctx, w.HPA.Namespace, ref)
			s.err = err // reported as the adapter's answer, if the scale is read
			w.scales[scaleKey{resourceOf(ref).GroupResource(), ref.Name}] = s
		}
		if !provider.OwnsDirectly(o.GroupKind) && !between {
			between = true
			if err := c.between(ctx, w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c Cluster) service(ctx context.Context, w *World, name string) error {
	s, err := c.Kube.CoreV1().Services(w.HPA.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil // reported as the adapter's answer
	case err != nil:
		return allowed(fmt.Errorf("reading Service %s/%s: %w", w.HPA.Namespace, name, err))
	}
	w.services[name] = s.Spec.Selector
	return nil
}

// between reads the owners of the objects between a pod and a custom workload.
func (c Cluster) between(ctx context.Context, w *World) error {
	ns := w.HPA.Namespace
	deployments, err := c.Kube.AppsV1().Deployments(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return allowed(fmt.Errorf("listing the Deployments of namespace %s: %w", ns, err))
	}
	for i := range deployments.Items {
		w.owned("apps/v1", "Deployment", &deployments.Items[i])
	}
	sets, err := c.Kube.AppsV1().StatefulSets(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return allowed(fmt.Errorf("listing the StatefulSets of namespace %s: %w", ns, err))
	}
	for i := range sets.Items {
		w.owned("apps/v1", "StatefulSet", &sets.Items[i])
	}
	jobs, err := c.Kube.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return allowed(fmt.Errorf("listing the Jobs of namespace %s: %w", ns, err))
	}
	for i := range jobs.Items {
		w.owned("batch/v1", "Job", &jobs.Items[i])
	}
	return nil
}

// owned records an object's controller.
func (w *World) owned(apiVersion, kind string, o metav1.Object) {
	if ref := metav1.GetControllerOf(o); ref != nil {
		w.owners[objectOf(apiVersion, kind, o.GetName())] = objectOf(ref.APIVersion, ref.Kind, ref.Name)
	}
}

// World replaces the adapter's informers: pods, their owners, Services and
// scales.
var (
	_ provider.Pods   = World{}
	_ provider.Above  = World{}
	_ provider.Scales = World{}
)

// Ready implements provider.Pods and provider.Above.
func (World) Ready() error { return nil }

// Lives implements provider.Pods.
func (w World) Lives(_, name string) (since time.Time, ok bool) {
	at := slices.IndexFunc(w.Pods, func(p core.Pod) bool { return p.Name == name && counted(p) })
	if at < 0 {
		return time.Time{}, false
	}
	return w.Pods[at].CreationTimestamp.Time, true
}

// Select implements provider.Pods.
func (w World) Select(_ string, selector labels.Selector) []string {
	return w.names(func(p *core.Pod) bool { return selector.Matches(labels.Set(p.Labels)) })
}

// Owned implements provider.Pods and provider.Above.
func (w World) Owned(_ string, kind schema.GroupKind, name string) []string {
	return w.names(func(p *core.Pod) bool { return w.below(object{kind, name}, p) })
}

// names returns the counted pods for which ok is true.
func (w World) names(ok func(*core.Pod) bool) (names []string) {
	for i := range w.Pods {
		if counted(w.Pods[i]) && ok(&w.Pods[i]) {
			names = append(names, w.Pods[i].Name)
		}
	}
	return names
}

// Service implements provider.Above.
func (w World) Service(_, name string) (labels.Selector, bool) {
	selector, there := w.services[name]
	if len(selector) == 0 {
		return nil, there
	}
	return labels.SelectorFromSet(selector), there
}

// Scale implements provider.Scales.
func (w World) Scale(_ context.Context, resource schema.GroupVersionResource, _, name string) (provider.Scale, error) {
	target := w.HPA.Spec.ScaleTargetRef
	if resource.GroupResource() == resourceOf(target).GroupResource() && name == target.Name {
		return provider.Scale{Selector: w.Selector, Zero: w.Replicas == 0 && w.StatusReplicas == 0}, nil
	}
	s := w.scales[scaleKey{resource.GroupResource(), name}]
	return s.Scale, s.err
}

// maxHeight bounds the chain of owners above a pod.
const maxHeight = 16

// below reports whether an object controls a pod, directly or through other
// objects. For kinds that own their pods directly, that is a ReplicaSet at most.
func (w World) below(o object, pod metav1.Object) bool {
	ref := metav1.GetControllerOf(pod)
	if ref == nil {
		return false
	}
	at := objectOf(ref.APIVersion, ref.Kind, ref.Name)
	for range maxHeight {
		if at == o {
			return true
		}
		next, known := w.owners[at]
		if !known || provider.OwnsDirectly(o.GroupKind) && at.GroupKind != replicaSetKind {
			return false
		}
		at = next
	}
	return false
}
