package signal

import (
	"cmp"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscale/gpuscale/gpu/metric"
)

const (
	namespaceLabel         = metric.LabelNamespace
	podLabel               = metric.LabelPod
	exportedNamespaceLabel = metric.Exported + metric.LabelNamespace
	exportedPodLabel       = metric.Exported + metric.LabelPod
)

// Sample is one series of the answer to [Rule.Query].
type Sample struct {
	Part   string // see PartLabel
	Labels labels.Labels
	Value  float64
}

// Sampler returns a function that makes a Sample of a series. It takes the part out of the labels
// and drops the name, the type and the unit (labels of Prometheus' feature type-and-unit-labels),
// since functions such as timestamp drop all three. The function is for one goroutine: it reuses
// one builder, which would be a third of all that a refresh allocates.
func Sampler() func(ls labels.Labels, value float64) Sample {
	b := labels.NewBuilder(labels.EmptyLabels())
	return func(ls labels.Labels, value float64) Sample {
		b.Reset(ls)
		return Sample{Part: ls.Get(PartLabel), Labels: b.Del(PartLabel, labels.MetricName, model.MetricTypeLabel, model.MetricUnitLabel).Labels(), Value: value}
	}
}

// pod and namespace are the labels that name what a series is about.
func (r *Rule) pod() string       { return cmp.Or(r.Labels.Pod, podLabel) }
func (r *Rule) namespace() string { return cmp.Or(r.Labels.Namespace, namespaceLabel) }

// Key names a pod; Pod is empty for a rule about namespaces.
type Key struct{ Namespace, Pod string }

// target returns the pod that a series was scraped from.
func (r *Rule) target(ls labels.Labels) Key { return Key{ls.Get(r.namespace()), ls.Get(r.pod())} }

// key returns the series' pod, or why it is of no use. Each label is read alone: a
// target may have a namespace but no pod.
//
// The owner of a scraped pod controls the labels on
// its metrics page. Prometheus moves a page's namespace and pod labels to
// exported_namespace and exported_pod; a GPU exporter's series arrive in the
// same form. The target's own namespace is not under the page's control: a
// target may report its own namespace, and another only if it runs in one of
// Exporters. With honor_labels the page controls that label too, and forged
// series cannot be recognized.
func (r *Rule) key(ls labels.Labels) (Key, Reason) {
	k := r.target(ls)
	switch r.Subject {
	case Namespace:
		k.Pod = ""
	case Exported:
		if !r.Exporters.Allow(ls.Get(exportedNamespaceLabel), k.Namespace) {
			return k, Untrusted
		}
		k = Key{cmp.Or(ls.Get(exportedNamespaceLabel), k.Namespace), cmp.Or(ls.Get(exportedPodLabel), k.Pod)}
	}
	if k.Namespace == "" || k.Pod == "" && r.Subject != Namespace {
		return k, Unlabelled
	}
	return k, ""
}

// Namespace returns the namespace that a series is about, "" where it is about none
// or its target may not report it.
func (r *Rule) Namespace(ls labels.Labels) string {
	k, why := r.key(ls)
	if why == Untrusted {
		return ""
	}
	return k.Namespace
}
