package signal

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// trusted returns the samples whose target may report their namespace, and
// counts the dropped values. The owner of a scraped pod controls the labels on
// its metrics page. Prometheus moves a page's namespace and pod labels to
// exported_namespace and exported_pod; a GPU exporter's series arrive in the
// same form. The target's own namespace is not under the page's control: a
// target may report its own namespace, and another only if it runs in one of
// Exporters. With honor_labels the page controls that label too, and forged
// series cannot be recognized.
func (r *Rule) trusted(samples []Sample) ([]Sample, map[Reason]int) {
	dropped := map[Reason]int{}
	if r.Subject != Exported || r.Exporters == nil || !slices.ContainsFunc(samples, r.claims) {
		return samples, dropped
	}
	kept := make([]Sample, 0, len(samples))
	for i := range samples {
		s := &samples[i]
		if !r.claims(*s) {
			kept = append(kept, *s)
			continue
		}
		if kind, _, ok := r.partOf(s.Part); ok && kind == 'v' {
			dropped[Untrusted]++
		}
	}
	return kept, dropped
}

// claims reports whether a sample is about a namespace that its target may not
// report.
func (r *Rule) claims(s Sample) bool { return !r.allows(s.Labels) }

func (r *Rule) allows(ls labels.Labels) bool {
	return r.Exporters.Allow(ls.Get(exportedNamespaceLabel), ls.Get(namespaceLabel))
}

// Namespace returns the namespace that a series is about, "" where it is about none
// or its target may not report it. get returns the value of a label.
func (r *Rule) Namespace(get func(label string) string) string {
	target := get(r.namespace())
	if r.Subject != Exported {
		return target
	}
	about := get(exportedNamespaceLabel)
	if !r.Exporters.Allow(about, target) {
		return ""
	}
	return first(about, target)
}
