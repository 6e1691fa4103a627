package explain

import (
	"context"
	"fmt"
	"net/http"

	autoscaling "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object names something in the HPA's namespace.
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

// ownsDirectly names the kinds whose pods always point back at them, as the
// provider has them.
func ownsDirectly(k schema.GroupKind) bool {
	switch k.String() {
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController":
		return true
	}
	return false
}

// Above reads what the metrics of type Object name beside the target: Services,
// owners of owners, other scales. Call it when the HPA's spec is final.
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
			s.err = err // told as the adapter's answer, if it comes to that
			w.scales[o] = s
		}
		if !ownsDirectly(o.GroupKind) && !between {
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
		return nil // told as the adapter's answer
	case err != nil:
		return allowed(fmt.Errorf("reading Service %s/%s: %w", w.HPA.Namespace, name, err))
	}
	w.services[name] = s.Spec.Selector
	return nil
}

// between reads the owners of what may stand between a pod and a workload of a
// kind of its own.
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

// owned notes whose an object is.
func (w *World) owned(apiVersion, kind string, o metav1.Object) {
	if ref := metav1.GetControllerOf(o); ref != nil {
		w.owners[objectOf(apiVersion, kind, o.GetName())] = objectOf(ref.APIVersion, ref.Kind, ref.Name)
	}
}

// podsOf names the counted pods of an object as the adapter finds them: those a
// Service selects; those that an object owns, or else, if its kind need not own
// its pods, those its scale selects.
func (w World) podsOf(ref autoscaling.CrossVersionObjectReference) ([]string, error) {
	o := described(ref)
	if o.GroupKind == serviceKind {
		return w.behind(ref.Name)
	}
	var pods []string
	for i := range w.Pods {
		if counted(w.Pods[i]) && w.below(o, &w.Pods[i]) {
			pods = append(pods, w.Pods[i].Name)
		}
	}
	switch {
	case len(pods) > 0 || ownsDirectly(o.GroupKind):
	case w.isTarget(ref):
		pods = w.names(w.Selector)
	case w.scales[o].err != nil:
		return nil, &refusal{http.StatusNotFound, fmt.Sprintf("%s %s/%s owns no pods and its selector is unknown: %v", ref.Kind, w.HPA.Namespace, ref.Name, w.scales[o].err)}
	case w.scales[o].selector != nil:
		pods = w.names(w.scales[o].selector)
	}
	return pods, nil
}

func (w World) behind(name string) ([]string, error) {
	selector, there := w.services[name]
	switch {
	case !there:
		return nil, &refusal{http.StatusNotFound, fmt.Sprintf("there is no Service %s/%s", w.HPA.Namespace, name)}
	case len(selector) == 0:
		return nil, &refusal{http.StatusNotFound, fmt.Sprintf("Service %s/%s has no selector: it has no pods of its own", w.HPA.Namespace, name)}
	}
	return w.names(labels.SelectorFromSet(selector)), nil
}

// maxHeight bounds the climb from a pod to what owns it.
const maxHeight = 16

// below reports whether an object controls a pod, whatever lies between, which
// for kinds that own their pods directly is a ReplicaSet at most.
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
		if !known || ownsDirectly(o.GroupKind) && at.GroupKind != replicaSetKind {
			return false
		}
		at = next
	}
	return false
}

// empty reports whether an object without pods is meant to have none.
func (w World) empty(ref autoscaling.CrossVersionObjectReference) bool {
	if w.isTarget(ref) {
		return w.Replicas == 0 && w.StatusReplicas == 0
	}
	return w.scales[described(ref)].zero
}
