package explain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/metrics/pkg/apis/custom_metrics"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
)

// refusal is the API's error: a sentence and an HTTP status.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

// answer is what the adapter answers to one metric.
type answer struct {
	hpa.Answer
	// value of an Object or External metric, before rounding to thousandths.
	value signal.Answer
	// pods are the names of the counted pods; nil for External.
	pods []string
}

func (w World) answerer() provider.Answerer { return w.listed.Answerer(w) }

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
		result.Pods, result.Error = nil, refused(err, failure)
		if r := (*refusal)(nil); errors.As(result.Error, &r) && t.Rule().Subject == signal.Namespace && len(result.pods) > 0 {
			result.Error = &refusal{r.code, r.text + "; the rule is about namespaces: ask for it as an External metric"}
		}
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
		Resource: resourceOf(a.object), Kind: described(a.object).GroupKind,
		Ref: custom_metrics.ObjectReference{Kind: a.object.Kind, Namespace: namespace, Name: a.object.Name},
	}
	if o.Ref.Kind == "Namespace" {
		o.Ref.Name = namespace // the HPA controller reads only this namespace
	}
	return o
}

// refused gives an error the adapter's status code: 503 while Prometheus fails,
// else 404.
func refused(err, failure error) error {
	var none *signal.NoAnswer
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		return &refusal{int(status.Status().Code), err.Error()}
	case !errors.As(err, &none):
		return err
	case failure != nil:
		return &refusal{http.StatusServiceUnavailable, fmt.Sprintf("%v; the last query failed: %v", err, failure)}
	}
	return &refusal{http.StatusNotFound, err.Error()}
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
