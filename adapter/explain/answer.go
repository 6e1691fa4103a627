package explain

import (
	"context"
	"fmt"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/metrics/pkg/apis/custom_metrics"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// answer is what the adapter answers to one metric.
type answer struct {
	hpa.Answer
	// value of an Object or External metric, before rounding to thousandths.
	value signal.Answer
	// pods are the names of the counted pods; nil for External.
	pods []string
}

// answer reads a table as the adapter's provider does. failure is Prometheus'.
func (w World) answer(ctx context.Context, a asked, t *signal.Table, failure error, now time.Time) answer {
	var result answer
	var err error
	ns := w.HPA.Namespace
	r := w.answerer()
	r.Now = func() time.Time { return now }
	switch a.kind {
	case autoscaling.ExternalMetricSourceType:
		result.value, err = r.External(t, ns, a.selector)
	case autoscaling.PodsMetricSourceType:
		var values []provider.PodAnswer
		values, result.pods, err = r.Each(t, ns, w.Selector, a.selector)
		result.Pods = map[string]int64{}
		for _, v := range values {
			result.Pods[v.Pod], _ = signal.Milli(v.Value)
		}
	default:
		result.value, result.pods, err = r.Object(ctx, t, a.thing(ns), a.selector)
	}
	if err != nil {
		if t.Rule().Subject == signal.Namespace && len(result.pods) > 0 {
			err = fmt.Errorf("%w; the rule is about namespaces: ask for it as an External metric", err)
		}
		result.Pods, result.Error = nil, provider.Refusal(err, failure)
		return result
	}
	if result.Pods == nil {
		milli, _ := signal.Milli(result.value.Value)
		result.Values = []int64{milli}
	}
	return result
}

// thing is the object that a metric describes.
func (a asked) thing(namespace string) provider.Object {
	o := provider.Object{
		Resource: resourceOf(a.object), Kind: kindOf(a.object),
		Ref: custom_metrics.ObjectReference{Kind: a.object.Kind, Namespace: namespace, Name: a.object.Name},
	}
	if o.Ref.Kind == "Namespace" {
		o.Ref.Name = namespace // the HPA controller reads only this namespace
	}
	return o
}
