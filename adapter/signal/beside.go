package signal

import "github.com/prometheus/prometheus/model/labels"

// beside is the part of an answer that is not values.
type beside struct {
	samples  []Sample
	times    map[stamp]int32 // index of the sample with the scrape time
	idle     map[idle]bool
	scrapers map[Key]bool
}

// stamp identifies a series by the hash of its labels: keeping the labels
// themselves twice would double the cost of reading an answer.
type stamp struct {
	source int
	hash   uint64
}

// idle identifies a subject with nothing to do.
type idle struct {
	Key
	source int
}

func (r *Rule) beside(samples []Sample, times map[stamp]int32, at Reading) beside {
	b := beside{samples: samples, times: times, idle: map[idle]bool{}, scrapers: r.scrapers(samples)}
	for i := range samples {
		s := &samples[i]
		giveWay(i)
		switch kind, n, ok := r.partOf(s.Part); {
		case !ok:
		case kind == 't':
			b.times[stamp{n, s.Labels.Hash()}] = int32(i)
		case kind == 'n':
			k, owned := r.Subject.key(s.Labels)
			if age, ok := at.age(s.Value, r.MaxAge); owned && ok && age <= r.MaxAge {
				b.idle[idle{k, n}] = true
			}
		}
	}
	return b
}

// scraped returns the scrape time of a source's series, in Unix seconds.
func (b *beside) scraped(source int, ls labels.Labels) (float64, bool) {
	i, ok := b.times[stamp{source, ls.Hash()}]
	if !ok || !labels.Equal(b.samples[i].Labels, ls) {
		return 0, false
	}
	return b.samples[i].Value, true
}

// scrapers returns the exporters' pods. Without honor_labels the series of a
// GPU allocated to no pod has the exporter's own pod, which must not count as
// the GPU's.
func (r *Rule) scrapers(samples []Sample) map[Key]bool {
	if r.Subject != Exported {
		return nil
	}
	found := map[Key]bool{}
	for _, s := range samples {
		if s.Labels.Get(exportedPodLabel) != "" {
			found[scraped(s.Labels)] = true
		}
	}
	return found
}
