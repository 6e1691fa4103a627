package explain

import (
	"context"
	"errors"
	"fmt"

	autoscaling "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

var serviceKind = schema.GroupKind{Kind: "Service"}

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
	s.Namespace, s.Name = w.HPA.Namespace, name
	return w.listed.AddService(s)
}

// between reads the owners of the objects between a pod and a custom workload.
func (c Cluster) between(ctx context.Context, w *World) error {
	ns := w.HPA.Namespace
	var errs []error
	deployments, err := c.Kube.AppsV1().Deployments(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return allowed(fmt.Errorf("listing the Deployments of namespace %s: %w", ns, err))
	}
	for _, d := range deployments.Items {
		errs = append(errs, w.add("apps/v1", "Deployment", d.ObjectMeta))
	}
	sets, err := c.Kube.AppsV1().StatefulSets(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return allowed(fmt.Errorf("listing the StatefulSets of namespace %s: %w", ns, err))
	}
	for _, set := range sets.Items {
		errs = append(errs, w.add("apps/v1", "StatefulSet", set.ObjectMeta))
	}
	jobs, err := c.Kube.BatchV1().Jobs(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return allowed(fmt.Errorf("listing the Jobs of namespace %s: %w", ns, err))
	}
	for _, job := range jobs.Items {
		errs = append(errs, w.add("batch/v1", "Job", job.ObjectMeta))
	}
	return errors.Join(errs...)
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
