package signal

import "github.com/prometheus/prometheus/model/labels"

// beside is what an answer says beside its values.
type beside struct {
	samples  []Sample
	times    map[stamp]int32 // to the sample that has the scrape time
	idle     map[idle]bool
	scrapers map[Key]bool
}

// stamp names a series by the hash of its labels: the labels themselves, a
// second time for each series, would double what reading an answer takes.
type stamp struct {
	source int
	hash   uint64
}

// idle names what nothing happened at.
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

// scrapers returns the pods that are scraped for news about others. Without
// honor_labels the series of a card nobody holds bears the exporter's own
// pod, which must not pass for a holder.
func (r *Rule) scrapers(samples []Sample) map[Key]bool {
	if r.Subject != Holder {
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
