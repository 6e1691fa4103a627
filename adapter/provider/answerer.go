package provider

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Answerer answers from one rule's table for objects, pods and namespaces. Its
// errors are *signal.NoAnswer or the API's own.
type Answerer struct {
	Pods   Pods
	Scales Scales // may be nil: then only Kubernetes' own kinds have pods
	Above  Above  // may be nil
	Now    func() time.Time
}

// PodAnswer is the answer for one pod.
type PodAnswer struct {
	Pod string
	signal.Answer
}

// Object answers for one object, and names the pods of a workload.
func (r Answerer) Object(ctx context.Context, table *signal.Table, o Object, selector labels.Selector) (a signal.Answer, pods []string, err error) {
	switch o.Ref.Kind {
	case "Namespace":
		if err := r.Pods.Ready(); err != nil {
			return a, nil, unavailable("%v", err)
		}
		a, err = table.Among(r.Pods.Lives).Namespace(o.Ref.Name, selector, r.Now())
	case "Pod":
		if err := r.Pods.Ready(); err != nil {
			return a, nil, unavailable("%v", err)
		}
		pods = []string{o.Ref.Name}
		a, err = table.Among(r.Pods.Lives).Pod(signal.Key{Namespace: o.Ref.Namespace, Pod: o.Ref.Name}, selector, r.Now())
	default:
		if pods, err = r.PodsOf(ctx, o); err == nil {
			a, err = r.workload(ctx, table, o, pods, selector)
		}
	}
	return a, pods, err
}

// workload answers for all pods of a workload together. A workload scaled to
// zero has the value the rule declares for that.
func (r Answerer) workload(ctx context.Context, table *signal.Table, o Object, pods []string, selector labels.Selector) (signal.Answer, error) {
	name := fmt.Sprintf("%s %s/%s", o.Ref.Kind, o.Ref.Namespace, o.Ref.Name)
	if len(pods) > 0 {
		return table.Among(r.Pods.Lives).Pods(signal.Keys(o.Ref.Namespace, pods), selector, r.Now(), fmt.Sprintf("%s of %s", count(len(pods), "pod"), name))
	}
	if table.Rule().AtZero != nil && r.scaledToZero(ctx, o) {
		return table.AtZero(r.Now(), name)
	}
	return signal.Answer{}, NotFound("%s has no pods", name)
}

// Each answers for each selected pod that has a value, and returns the names of
// all selected pods. Pods without a value are left out: the HPA treats them as
// missing.
func (r Answerer) Each(table *signal.Table, namespace string, selector, metricSelector labels.Selector) (values []PodAnswer, pods []string, err error) {
	if err := r.Pods.Ready(); err != nil {
		return nil, nil, unavailable("%v", err)
	}
	if pods = r.Pods.Select(namespace, selector); len(pods) == 0 {
		return nil, nil, NotFound("no pod in namespace %s matches %q", namespace, selector)
	}
	now := r.Now()
	table = table.Among(r.Pods.Lives)
	for _, pod := range pods {
		if a, err := table.Pod(signal.Key{Namespace: namespace, Pod: pod}, metricSelector, now); err == nil {
			values = append(values, PodAnswer{pod, a})
		}
	}
	if len(values) == 0 {
		subject := fmt.Sprintf("%s in namespace %s matching %q", count(len(pods), "pod"), namespace, selector)
		_, err = table.Pods(signal.Keys(namespace, pods), metricSelector, now, subject)
	}
	return values, pods, err
}

// External answers for a whole namespace.
func (r Answerer) External(table *signal.Table, namespace string, selector labels.Selector) (signal.Answer, error) {
	if err := r.Pods.Ready(); err != nil {
		return signal.Answer{}, unavailable("%v", err)
	}
	if namespace == "" {
		return signal.Answer{}, badRequest("external metrics are read in a namespace")
	}
	return table.Among(r.Pods.Lives).External(namespace, selector, r.Now())
}

var serviceKind = schema.GroupKind{Kind: "Service"}

// PodsOf returns the pods of a workload: those it owns directly or through a
// ReplicaSet; if none, those it owns through other objects; if none, those its
// scale subresource selects. There may be none.
func (r Answerer) PodsOf(ctx context.Context, o Object) ([]string, error) {
	if err := r.Pods.Ready(); err != nil {
		return nil, unavailable("%v", err)
	}
	if o.Kind == serviceKind {
		return r.behind(o)
	}
	pods := r.Pods.Owned(o.Ref.Namespace, o.Kind, o.Ref.Name)
	if OwnsDirectly(o.Kind) {
		return pods, nil
	}
	if r.Above != nil {
		if err := r.Above.Ready(); err != nil {
			return nil, unavailable("%v", err)
		}
		pods = r.Above.Owned(o.Ref.Namespace, o.Kind, o.Ref.Name)
	}
	if len(pods) > 0 || r.Scales == nil {
		return pods, nil
	}
	scale, err := r.Scales.Scale(ctx, o.Resource, o.Ref.Namespace, o.Ref.Name)
	switch {
	case err != nil:
		return nil, NotFound("%s %s/%s owns no pods and its selector is unknown: %v", o.Ref.Kind, o.Ref.Namespace, o.Ref.Name, err)
	case scale.Selector == nil:
		return nil, nil
	}
	return r.Pods.Select(o.Ref.Namespace, scale.Selector), nil
}

// behind returns the pods a Service selects.
func (r Answerer) behind(o Object) ([]string, error) {
	if r.Above == nil {
		return nil, NotFound("Services are not watched")
	}
	if err := r.Above.Ready(); err != nil {
		return nil, unavailable("%v", err)
	}
	selector, there := r.Above.Service(o.Ref.Namespace, o.Ref.Name)
	switch {
	case !there:
		return nil, NotFound("there is no Service %s/%s", o.Ref.Namespace, o.Ref.Name)
	case selector == nil:
		return nil, NotFound("Service %s/%s has no selector: it has no pods of its own", o.Ref.Namespace, o.Ref.Name)
	}
	return r.Pods.Select(o.Ref.Namespace, selector), nil
}

// scaledToZero reports whether a workload without pods is scaled to zero, and
// has not just lost them.
func (r Answerer) scaledToZero(ctx context.Context, o Object) bool {
	if r.Scales == nil || o.Resource.Empty() {
		return false
	}
	scale, err := r.Scales.Scale(ctx, o.Resource, o.Ref.Namespace, o.Ref.Name)
	return err == nil && scale.Zero
}

// OwnsDirectly reports whether the pods of a kind always have it, or its
// ReplicaSet, as their controller.
func OwnsDirectly(k schema.GroupKind) bool {
	switch k.String() {
	case "Deployment.apps", "ReplicaSet.apps", "StatefulSet.apps", "DaemonSet.apps", "Job.batch", "ReplicationController":
		return true
	}
	return false
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
