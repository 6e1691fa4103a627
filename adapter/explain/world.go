package explain

import (
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
)

// Cluster reads the API server.
type Cluster struct {
	Kube    kubernetes.Interface
	Dynamic dynamic.Interface
}

// World is what the API server says at one moment.
type World struct {
	HPA autoscaling.HorizontalPodAutoscaler
	// Replicas and StatusReplicas of the target's scale, and its pods' selector.
	Replicas, StatusReplicas int32
	Selector                 labels.Selector
	// Pods of the namespace, sorted by name, those that have ended included.
	Pods []core.Pod
	// owners of the namespace's ReplicaSets, by name.
	owners map[string]metav1.OwnerReference
}

// Read reads all that concerns an HPA. given, if not nil, is looked at in place
// of the one in the cluster.
func (c Cluster) Read(ctx context.Context, namespace, name string, given *autoscaling.HorizontalPodAutoscaler) (World, error) {
	w := World{owners: map[string]metav1.OwnerReference{}}
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
	sets, err := c.Kube.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return w, allowed(fmt.Errorf("listing the ReplicaSets of namespace %s: %w", namespace, err))
	}
	for i := range sets.Items {
		if ref := metav1.GetControllerOf(&sets.Items[i]); ref != nil {
			w.owners[sets.Items[i].Name] = *ref
		}
	}
	return w, nil
}

// notThere says which HPAs there are instead.
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

// allowed says what to do about an error of authorisation.
func allowed(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf("%w: to explain one needs to get and list horizontalpodautoscalers, pods, replicasets and the target's scale in that namespace", err)
	}
	return err
}

func (c Cluster) scale(ctx context.Context, w *World) error {
	ref := w.HPA.Spec.ScaleTargetRef
	gvr, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	o, err := c.Dynamic.Resource(gvr).Namespace(w.HPA.Namespace).Get(ctx, ref.Name, metav1.GetOptions{}, "scale")
	if err != nil {
		return allowed(fmt.Errorf("reading the scale of %s %s/%s: %w", ref.Kind, w.HPA.Namespace, ref.Name, err))
	}
	number := func(fields ...string) int32 {
		n, _, _ := unstructured.NestedInt64(o.Object, fields...) // absent is 0, as in the typed object
		return int32(n)
	}
	w.Replicas, w.StatusReplicas = number("spec", "replicas"), number("status", "replicas")
	text, _, _ := unstructured.NestedString(o.Object, "status", "selector")
	if text == "" {
		return fmt.Errorf("the scale of %s %s/%s names no selector, so no HPA can work with it", ref.Kind, w.HPA.Namespace, ref.Name)
	}
	if w.Selector, err = labels.Parse(text); err != nil {
		return fmt.Errorf("the selector in the scale of %s %s/%s: %w", ref.Kind, w.HPA.Namespace, ref.Name, err)
	}
	return nil
}

// counted says whether the adapter counts the pod.
func counted(p core.Pod) bool {
	return p.DeletionTimestamp == nil && p.Status.Phase != core.PodSucceeded && p.Status.Phase != core.PodFailed
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

// podsOf names the counted pods of an object: those it owns, directly or
// through a ReplicaSet, or, if it owns none and is the target, those its scale
// selects.
func (w World) podsOf(ref autoscaling.CrossVersionObjectReference) []string {
	var owned []string
	group := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group
	is := func(o *metav1.OwnerReference) bool {
		return o != nil && o.Kind == ref.Kind && o.Name == ref.Name && schema.FromAPIVersionAndKind(o.APIVersion, o.Kind).Group == group
	}
	for i := range w.Pods {
		owner := metav1.GetControllerOf(&w.Pods[i])
		if !counted(w.Pods[i]) || owner == nil {
			continue
		}
		above, through := w.owners[owner.Name]
		if is(owner) || owner.Kind == "ReplicaSet" && through && is(&above) {
			owned = append(owned, w.Pods[i].Name)
		}
	}
	if len(owned) == 0 && w.isTarget(ref) {
		owned = w.names(w.Selector)
	}
	return owned
}

func (w World) isTarget(ref autoscaling.CrossVersionObjectReference) bool {
	t := w.HPA.Spec.ScaleTargetRef
	return t.Kind == ref.Kind && t.Name == ref.Name
}

// names are the counted pods a selector matches.
func (w World) names(selector labels.Selector) []string {
	var names []string
	for _, p := range w.Pods {
		if counted(p) && selector.Matches(labels.Set(p.Labels)) {
			names = append(names, p.Name)
		}
	}
	return names
}

// has says whether a counted pod has that name.
func (w World) has(name string) bool {
	return slices.ContainsFunc(w.Pods, func(p core.Pod) bool { return p.Name == name && counted(p) })
}
