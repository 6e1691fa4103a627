package provider

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

func (p *Provider) byName(ctx context.Context, name types.NamespacedName, info cma.CustomMetricInfo, selector labels.Selector) (*custom_metrics.MetricValue, error) {
	view, err := p.view(ctx, info.Metric)
	if err != nil {
		return nil, err
	}
	o, err := p.object(name, info)
	if err != nil {
		return nil, err
	}
	var a signal.Answer
	switch o.ref.Kind {
	case "Namespace":
		if err := p.pods.Ready(); err != nil {
			return nil, unavailable("%v", err)
		}
		a, err = view.Table.Namespace(name.Name, selector, p.now(), func(pod string) bool { return p.pods.Has(name.Name, pod) })
	case "Pod":
		a, err = view.Table.Pod(signal.Key{Namespace: name.Namespace, Pod: name.Name}, selector, p.now())
	default:
		a, err = p.ofWorkload(ctx, view.Table, o, selector)
	}
	if err != nil {
		return nil, missing(view, o.namespace(), selector, err)
	}
	v := value(view.Table.Rule(), o.ref, selector, a)
	return &v, nil
}

// ofWorkload answers for all pods of a workload together. A workload without
// pods has the value the rule declares for that, if it is meant to have none.
func (p *Provider) ofWorkload(ctx context.Context, table *signal.Table, o object, selector labels.Selector) (signal.Answer, error) {
	pods, err := p.podsOf(ctx, o)
	if err != nil {
		return signal.Answer{}, err
	}
	name := fmt.Sprintf("%s %s/%s", o.ref.Kind, o.ref.Namespace, o.ref.Name)
	if len(pods) > 0 {
		return table.Pods(signal.Keys(o.ref.Namespace, pods), selector, p.now(), fmt.Sprintf("%s of %s", count(len(pods), "pod"), name))
	}
	if table.Rule().AtZero != nil && p.meantToBeEmpty(ctx, o) {
		return table.AtZero(p.now(), name)
	}
	return signal.Answer{}, notFound("%s has no pods", name)
}

func (p *Provider) bySelector(ctx context.Context, namespace string, selector labels.Selector, info cma.CustomMetricInfo, metricSelector labels.Selector) (*custom_metrics.MetricValueList, error) {
	if info.GroupResource.String() != "pods" {
		return nil, badRequest("only pods can be asked for by selector, not %s", info.GroupResource)
	}
	view, err := p.view(ctx, info.Metric)
	if err != nil {
		return nil, err
	}
	if err := p.pods.Ready(); err != nil {
		return nil, unavailable("%v", err)
	}
	pods := p.pods.Select(namespace, selector)
	if len(pods) == 0 {
		return nil, notFound("no pod in namespace %s matches %q", namespace, selector)
	}
	now := p.now()
	list := &custom_metrics.MetricValueList{Items: make([]custom_metrics.MetricValue, 0, len(pods))}
	for _, pod := range pods {
		a, err := view.Table.Pod(signal.Key{Namespace: namespace, Pod: pod}, metricSelector, now)
		if err != nil {
			continue // left out: the HPA knows the pod and treats it as missing
		}
		ref := custom_metrics.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: namespace, Name: pod}
		list.Items = append(list.Items, value(view.Table.Rule(), ref, metricSelector, a))
	}
	if len(list.Items) == 0 {
		subject := fmt.Sprintf("%s in namespace %s matching %q", count(len(pods), "pod"), namespace, selector)
		_, err := view.Table.Pods(signal.Keys(namespace, pods), metricSelector, now, subject)
		return nil, missing(view, namespace, metricSelector, err)
	}
	return list, nil
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
