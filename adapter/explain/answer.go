package explain

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
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
	// value is the one of an Object or External metric, before it is rounded to
	// thousandths.
	value signal.Answer
	// pods are those that are counted, by name; nil for External.
	pods []string
}

// answer asks a table as the adapter's provider does. failure is Prometheus'.
func (w World) answer(a asked, t *signal.Table, failure error, now time.Time) answer {
	var result answer
	var err error
	ns := w.HPA.Namespace
	switch {
	case a.kind == autoscaling.ExternalMetricSourceType:
		result.value, err = t.External(ns, a.selector, now, w.has)
	case a.kind == autoscaling.PodsMetricSourceType:
		result.pods = w.names(w.Selector)
		result.Pods, err = w.each(a, t, result.pods, now)
	case a.object.Kind == "Namespace":
		result.value, err = t.Namespace(ns, a.selector, now, w.has)
	case a.object.Kind == "Pod":
		result.pods = []string{a.object.Name}
		result.value, err = t.Pod(signal.Key{Namespace: ns, Pod: a.object.Name}, a.selector, now)
	default:
		if result.pods, err = w.podsOf(a.object); err == nil {
			result.value, err = w.workload(a, t, result.pods, now)
		}
	}
	if err != nil {
		result.Error = refused(err, failure)
		if r, ok := result.Error.(*refusal); ok && t.Rule().Subject == signal.Namespace && len(result.pods) > 0 {
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

// workload answers for all pods of an object together.
func (w World) workload(a asked, t *signal.Table, pods []string, now time.Time) (signal.Answer, error) {
	name := fmt.Sprintf("%s %s/%s", a.object.Kind, w.HPA.Namespace, a.object.Name)
	switch {
	case len(pods) > 0:
		return t.Pods(signal.Keys(w.HPA.Namespace, pods), a.selector, now, fmt.Sprintf("%s of %s", count(len(pods), "pod"), name))
	case w.empty(a.object) && t.Rule().AtZero != nil:
		return t.AtZero(now, name)
	}
	return signal.Answer{}, &refusal{http.StatusNotFound, name + " has no pods"}
}

// each answers for every pod that has a value.
func (w World) each(a asked, t *signal.Table, pods []string, now time.Time) (map[string]int64, error) {
	ns := w.HPA.Namespace
	if len(pods) == 0 {
		return nil, &refusal{http.StatusNotFound, fmt.Sprintf("no pod in namespace %s matches %q", ns, w.Selector)}
	}
	values := map[string]int64{}
	for _, pod := range pods {
		if v, err := t.Pod(signal.Key{Namespace: ns, Pod: pod}, a.selector, now); err == nil {
			values[pod], _ = signal.Milli(v.Value)
		}
	}
	if len(values) == 0 {
		_, err := t.Pods(signal.Keys(ns, pods), a.selector, now, fmt.Sprintf("%s in namespace %s matching %q", count(len(pods), "pod"), ns, w.Selector))
		return nil, err
	}
	return values, nil
}

// refused gives the error the code the adapter gives it: 503 while Prometheus
// fails, else 404.
func refused(err, failure error) error {
	var none *signal.NoAnswer
	switch {
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
