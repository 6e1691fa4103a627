package signal

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
)

// trusted returns the samples whose target may say what they say, and counts
// the values among the others. Whoever owns a scraped pod writes what he likes
// on its metrics page. Prometheus moves a page's claim to be another pod to
// exported_namespace and exported_pod, which is how an honest GPU exporter's
// news about holders arrives too. What it does not let the page write is the
// target's own namespace, so that decides: a target speaks about its own
// namespace; about another, only if it runs where exporters do. Where
// honor_labels lets the page have the last word there is nothing left to tell
// the two apart by.
func (r *Rule) trusted(samples []Sample) ([]Sample, map[Reason]int) {
	dropped := map[Reason]int{}
	if r.Subject != Holder || r.Exporters == nil || !slices.ContainsFunc(samples, r.claims) {
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

// claims reports whether a sample speaks about a namespace that is none of its
// target's business.
func (r *Rule) claims(s Sample) bool { return !r.maySpeak(s.Labels) }

func (r *Rule) maySpeak(ls labels.Labels) bool {
	about, target := ls.Get(exportedNamespaceLabel), ls.Get(namespaceLabel)
	return about == "" || about == target || slices.Contains(r.Exporters, target)
}
