package explain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	// listed are the pods that the adapter counts, what is above them, and the Services that
	// metrics name.
	listed *provider.Listed
	// scales are those of objects other than the target.
	scales map[scaleKey]scale
}

func newWorld() (World, error) {
	listed, err := provider.NewListed()
	return World{listed: listed, scales: map[scaleKey]scale{}}, err
}

// add adds an object of the HPA's namespace.
func (w World) add(apiVersion, kind string, o metav1.ObjectMeta) error {
	o.Namespace = w.HPA.Namespace
	return w.listed.Add(apiVersion, kind, o)
}

type scaleKey struct {
	schema.GroupResource
	name string
}

// scale is the part of a scale subresource that is read.
type scale struct {
	provider.Scale
	replicas, status int32
	err              error // why the rest is unknown
}

// Read reads everything about an HPA. given, if not nil, replaces the one in the
// cluster.
func (c Cluster) Read(ctx context.Context, namespace, name string, given *autoscaling.HorizontalPodAutoscaler) (World, error) {
	w, err := newWorld()
	if err != nil {
		return w, err
	}
	if given != nil {
		w.HPA = *given
	} else {
		found, err := c.Kube.AutoscalingV2().HorizontalPodAutoscalers(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return w, c.notThere(ctx, namespace, name, err)
		}
		w.HPA = *found
	}
	w.HPA.Namespace = namespace
	w.HPA.Spec = hpa.Defaulted(w.HPA.Spec)
	if err := c.scale(ctx, &w); err != nil {
		return w, err
	}
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return w, allowed(fmt.Errorf("listing the pods of namespace %s: %w", namespace, err))
	}
	w.Pods = pods.Items
	slices.SortFunc(w.Pods, func(a, b core.Pod) int { return strings.Compare(a.Name, b.Name) })
	var errs []error
	for _, p := range w.Pods {
		if p.Status.Phase != core.PodSucceeded && p.Status.Phase != core.PodFailed {
			errs = append(errs, w.add("v1", "Pod", p.ObjectMeta))
		}
	}
	sets, err := c.Kube.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return w, allowed(fmt.Errorf("listing the ReplicaSets of namespace %s: %w", namespace, err))
	}
	for _, set := range sets.Items {
		errs = append(errs, w.add("apps/v1", "ReplicaSet", set.ObjectMeta))
	}
	return w, errors.Join(errs...)
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

func (c Cluster) scale(ctx context.Context, w *World) error {
	ref := w.HPA.Spec.ScaleTargetRef
	s, err := c.scaleOf(ctx, w.HPA.Namespace, ref)
	switch {
	case err != nil:
		return allowed(err)
	case s.Selector == nil:
		return fmt.Errorf("the scale of %s %s/%s has no selector, which an HPA needs", ref.Kind, w.HPA.Namespace, ref.Name)
	}
	w.Replicas, w.StatusReplicas, w.Selector = s.replicas, s.status, s.Selector
	return nil
}

func (c Cluster) scaleOf(ctx context.Context, namespace string, ref autoscaling.CrossVersionObjectReference) (scale, error) {
	o, err := c.Dynamic.Resource(resourceOf(ref)).Namespace(namespace).Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if err != nil {
		return scale{}, fmt.Errorf("reading the scale of %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	number := func(fields ...string) int32 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...) // absent is 0, as in the typed object
		return int32(n)
	}
	s := scale{replicas: number("spec", "replicas"), status: number("status", "replicas")}
	if s.Scale, err = provider.ScaleOf(o.Object); err != nil {
		return scale{}, fmt.Errorf("the scale of %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	return s, nil
}

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

func (w World) isTarget(ref autoscaling.CrossVersionObjectReference) bool {
	return described(w.HPA.Spec.ScaleTargetRef) == described(ref)
}
