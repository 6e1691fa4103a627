package provider

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/metrics/pkg/apis/custom_metrics"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

// Answerer answers from one rule's table for objects, pods and namespaces. Its
// errors are *signal.NoAnswer or the API's own.
type Answerer struct {
	Pods   Pods
	Scales Scales
	Now    func() time.Time
}

// Object is the object that a request names.
type Object struct {
	Resource schema.GroupVersionResource // of its scale; empty for kinds without one
	Kind     schema.GroupKind
	Ref      custom_metrics.ObjectReference
}

// namespace returns the namespace of the object's pods; for a Namespace, itself.
func (o Object) namespace() string {
	if o.Ref.Kind == "Namespace" {
		return o.Ref.Name
	}
	return o.Ref.Namespace
}

// PodAnswer is the answer for one pod.
type PodAnswer struct {
	Pod string
	signal.Answer
}

// ready returns a table that knows which pods live.
func (r Answerer) ready(table *signal.Table) (*signal.Table, error) {
	if err := r.Pods.Ready(); err != nil {
		return nil, Unavailable("%v", err)
	}
	return table.Among(r.Pods.Lives), nil
}

// Object answers for one object, and names the pods of a workload.
func (r Answerer) Object(ctx context.Context, table *signal.Table, o Object, selector labels.Selector) (a signal.Answer, pods []string, err error) {
	if table, err = r.ready(table); err != nil {
		return a, nil, err
	}
	switch o.Ref.Kind {
	case "Namespace":
		a, err = table.Namespace(o.Ref.Name, selector, r.Now())
	case "Pod":
		pods = []string{o.Ref.Name}
		a, err = table.Pod(signal.Key{Namespace: o.Ref.Namespace, Pod: o.Ref.Name}, selector, r.Now())
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
		return table.Pods(o.Ref.Namespace, pods, selector, r.Now(), fmt.Sprintf("%s of %s", Count(len(pods), "pod"), name))
	}
	if zero := table.Rule().AtZero; zero != nil && !o.Resource.Empty() {
		if scale, err := r.Scales.Scale(ctx, o.Resource, o.Ref.Namespace, o.Ref.Name); err == nil && scale.Zero() {
			return signal.Answer{Value: *zero, Time: r.Now(), Declared: 1}, nil
		}
	}
	return signal.Answer{}, NotFound("%s has no pods", name)
}

// Each answers for each selected pod that has a value, and returns the names of
// all selected pods. Pods without a value are left out: the HPA treats them as
// missing.
func (r Answerer) Each(table *signal.Table, namespace string, selector, metricSelector labels.Selector) (values []PodAnswer, pods []string, err error) {
	if table, err = r.ready(table); err != nil {
		return nil, nil, err
	}
	if pods = r.Pods.Select(namespace, selector); len(pods) == 0 {
		return nil, nil, NotFound("no pod in namespace %s matches %q", namespace, selector)
	}
	now := r.Now()
	for _, pod := range pods {
		if a, err := table.Pod(signal.Key{Namespace: namespace, Pod: pod}, metricSelector, now); err == nil {
			values = append(values, PodAnswer{pod, a})
		}
	}
	if len(values) == 0 {
		subject := fmt.Sprintf("%s in namespace %s matching %q", Count(len(pods), "pod"), namespace, selector)
		_, err = table.Pods(namespace, pods, metricSelector, now, subject)
	}
	return values, pods, err
}

// External answers for a whole namespace.
func (r Answerer) External(table *signal.Table, namespace string, selector labels.Selector) (signal.Answer, error) {
	table, err := r.ready(table)
	switch {
	case err != nil:
		return signal.Answer{}, err
	case namespace == "":
		return signal.Answer{}, apierrors.NewBadRequest("external metrics are read in a namespace")
	}
	return table.External(namespace, selector, r.Now())
}

// PodsOf returns the pods of a workload: those it owns, or if it owns none,
// those that its scale subresource selects. A Service's pods are those that it
// selects. There may be none.
func (r Answerer) PodsOf(ctx context.Context, o Object) ([]string, error) {
	if o.Kind == serviceKind {
		selector, err := r.Pods.Service(o.Ref.Namespace, o.Ref.Name)
		if err != nil {
			return nil, err
		}
		return r.Pods.Select(o.Ref.Namespace, selector), nil
	}
	pods, err := r.Pods.Owned(o.Ref.Namespace, o.Kind, o.Ref.Name)
	switch {
	case err != nil:
		return nil, Unavailable("%v", err)
	case len(pods) > 0, ownsDirectly(o.Kind):
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

// Count is a number of things in words.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
