package provider

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/metrics/pkg/apis/custom_metrics"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

func value(rule signal.Rule, ref custom_metrics.ObjectReference, selector labels.Selector, a signal.Answer) custom_metrics.MetricValue {
	return custom_metrics.MetricValue{
		DescribedObject: ref,
		Metric:          custom_metrics.MetricIdentifier{Name: rule.Name, Selector: identifier(selector)},
		Timestamp:       metav1.NewTime(a.Time),
		WindowSeconds:   window(rule),
		Value:           quantity(a.Value),
	}
}

// identifier repeats the selector, as the API requires.
func identifier(selector labels.Selector) *metav1.LabelSelector {
	if selector.Empty() {
		return nil
	}
	parsed, err := metav1.ParseToLabelSelector(selector.String())
	if err != nil {
		return nil // greater-than and less-than have no such form
	}
	return parsed
}

func window(rule signal.Rule) *int64 {
	seconds := int64(rule.Window.Seconds())
	return &seconds
}

// quantity is in thousandths, the HPA's resolution. v is not NaN: tables drop
// such values.
func quantity(v float64) resource.Quantity {
	milli, _ := signal.Milli(v)
	return *resource.NewMilliQuantity(milli, resource.DecimalSI)
}
