package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
)

// Cluster reads the API server.
type Cluster struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// World is the state of the API server at one time.
type World struct {
	HPA autoscaling.HorizontalPodAutoscaler
	// Replicas and StatusReplicas of the target's scale, and its pods' selector.
	Replicas, StatusReplicas int32
	Selector                 labels.Selector
	// Pods of the namespace, sorted by name, those that have ended included.
	Pods []core.Pod
	// pods are those that the adapter counts, and the Services that metrics name.
	pods provider.Pods
	// scales are those of objects other than the target.
	scales provider.Scales
}

// kindOf is the group and kind of an object that an HPA names.
func kindOf(ref autoscaling.CrossVersionObjectReference) schema.GroupKind {
	return schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
}

// resourceOf is the resource of a kind.
func resourceOf(ref autoscaling.CrossVersionObjectReference) schema.GroupVersionResource {
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	return gvr
}

// Read reads everything about an HPA. given, if not nil, replaces the one in the
// cluster; change may change its spec.
func (c Cluster) Read(ctx context.Context, namespace, name string, given *autoscaling.HorizontalPodAutoscaler, change func(*autoscaling.HorizontalPodAutoscalerSpec) error) (World, error) {
	listed, err := provider.NewListed()
	w := World{pods: listed}
	if err != nil {
		return w, err
	}
	if given == nil {
		if given, err = c.Kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return w, c.notThere(ctx, namespace, name, err)
		}
	}
	w.HPA = *given
	w.HPA.Namespace = namespace
	w.HPA.Spec = hpa.Defaulted(w.HPA.Spec)
	if change != nil {
		if err := change(&w.HPA.Spec); err != nil {
			return w, err
		}
	}
	w.HPA.Spec = hpa.Defaulted(w.HPA.Spec)
	w.scales = provider.NewScales(c.Dynamic)
	if err := c.scale(ctx, &w); err != nil {
		return w, err
	}
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return w, allowed(fmt.Errorf("listing the pods of namespace %s: %w", namespace, err))
	}
	w.Pods = pods.Items
	slices.SortFunc(w.Pods, func(a, b core.Pod) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range w.Pods {
		if p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed {
			continue
		}
		if err := listed.Add(podKind, meta.AsPartialObjectMetadata(&p)); err != nil {
			return w, err
		}
	}
	return w, c.above(ctx, w, listed)
}

var podKind = schema.GroupKind{Kind: "Pod"}

// above reads what is between pods and the objects that metrics name: ReplicaSets,
// Services, and other kinds only where such an object does not own its pods itself.
func (c Cluster) above(ctx context.Context, w World, into *provider.Informers) error {
	kinds := map[schema.GroupKind]schema.GroupVersionResource{}
	for kind, resource := range provider.Watched() {
		if kind.Kind == "ReplicaSet" {
			kinds[kind] = resource
		}
	}
	for _, m := range w.HPA.Spec.Metrics {
		if m.Type != autoscaling.ObjectMetricSourceType || m.Object == nil {
			continue
		}
		ref := m.Object.DescribedObject
		switch kind := kindOf(ref); {
		case ref.Kind == "Pod", ref.Kind == "Namespace", provider.OwnsDirectly(kind):
		case kind == schema.GroupKind{Kind: "Service"}:
			s, err := c.Kube.CoreV1().Services(w.HPA.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err): // reported as the adapter's answer
			case err != nil:
				return allowed(fmt.Errorf("reading Service %s/%s: %w", w.HPA.Namespace, ref.Name, err))
			default:
				s.Namespace, s.Name = w.HPA.Namespace, ref.Name
				if err := into.Add(kind, s); err != nil {
					return err
				}
			}
		default:
			kinds = provider.Watched()
			delete(kinds, podKind)
		}
	}
	for kind, resource := range kinds {
		list, err := c.Dynamic.Resource(resource).Namespace(w.HPA.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return allowed(fmt.Errorf("listing the %s of namespace %s: %w", resource.Resource, w.HPA.Namespace, err))
		}
		for _, o := range list.Items {
			if err := into.Add(kind, meta.AsPartialObjectMetadata(&o)); err != nil {
				return err
			}
		}
	}
	return nil
}

// notThere adds the names of the existing HPAs to the error.
func (c Cluster) notThere(ctx context.Context, namespace, name string, err error) error {
	err = allowed(fmt.Errorf("reading HorizontalPodAutoscaler %s/%s: %w", namespace, name, err))
	if !apierrors.IsNotFound(err) {
		return err
	}
	list, listErr := c.Kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case listErr != nil:
		return err
	case len(list.Items) == 0:
		return fmt.Errorf("%w; namespace %s has none", err, namespace)
	}
	names := make([]string, len(list.Items))
	for i, h := range list.Items {
		names[i] = h.Name
	}
	slices.Sort(names)
	return fmt.Errorf("%w; namespace %s has %s", err, namespace, strings.Join(names, ", "))
}

// allowed adds the needed rights to an error of authorization.
func allowed(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: explain needs get and list on horizontalpodautoscalers, pods, replicasets and the target's scale in that namespace, and on the services, deployments, statefulsets or jobs between a metric's object and its pods", err)
	}
	return err
}

// scale reads the target's scale.
func (c Cluster) scale(ctx context.Context, w *World) error {
	ref := w.HPA.Spec.ScaleTargetRef
	of := fmt.Sprintf("the scale of %s %s/%s", ref.Kind, w.HPA.Namespace, ref.Name)
	o, err := c.Dynamic.Resource(resourceOf(ref)).Namespace(w.HPA.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if err != nil {
		return allowed(fmt.Errorf("reading %s: %w", of, err))
	}
	s, err := provider.ScaleOf(o.Object)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", of, err)
	case s.Selector == nil:
		return fmt.Errorf("%s has no selector, which an HPA needs", of)
	}
	number := func(fields ...string) int32 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...) // absent is 0, as in the typed object
		return int32(n)
	}
	w.Replicas, w.StatusReplicas, w.Selector = number("spec", "replicas"), number("status", "replicas"), s.Selector
	return nil
}

// Scale implements provider.Scales.
func (w World) Scale(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (provider.Scale, error) {
	target := w.HPA.Spec.ScaleTargetRef
	if resource.GroupResource() == resourceOf(target).GroupResource() && name == target.Name || w.scales == nil {
		return provider.Scale{Selector: w.Selector, Zero: w.Replicas == 0 && w.StatusReplicas == 0}, nil
	}
	return w.scales.Scale(ctx, resource, namespace, name)
}

// reports returns the message of the HPA's condition of a reason; "" if it has none.
func (w World) reports(reason string) string {
	for _, c := range w.HPA.Status.Conditions {
		if c.Reason == reason {
			return cmp.Or(c.Message, reason)
		}
	}
	return ""
}

func (w World) answerer() provider.Answerer { return provider.Answerer{Pods: w.pods, Scales: w} }

// selected are the pods the target's scale selects, as the HPA sees them.
func (w World) selected() []hpa.Pod {
	var pods []hpa.Pod
	for _, p := range w.Pods {
		if !w.Selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		ready := slices.ContainsFunc(p.Status.Conditions, func(c core.PodCondition) bool {
			return c.Type == core.PodReady && c.Status == core.ConditionTrue
		})
		pods = append(pods, hpa.Pod{Name: p.Name, Phase: p.Status.Phase, Ready: ready, Deleted: p.DeletionTimestamp != nil})
	}
	return pods
}
