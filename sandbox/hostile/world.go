package hostile

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// World has the series of honest targets that Prometheus stored in a time range.
type World struct {
	storage.Queryable
	From, To time.Time

	values map[string][]string        // values by label, as on the pages
	series map[string][]labels.Labels // label sets by name, as on the pages
}

// Look reads a World from a storage, so that attacks can imitate it.
func Look(honest storage.Queryable, from, to time.Time) (*World, error) {
	q, err := honest.Querier(from.UnixMilli(), to.UnixMilli())
	if err != nil {
		return nil, err
	}
	defer q.Close()
	w := &World{Queryable: honest, From: from, To: to, values: map[string][]string{}, series: map[string][]labels.Labels{}}
	families := Families()
	found := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, labels.MetricName, ".+"))
	for found.Next() {
		stored := found.At().Labels()
		name := stored.Get(labels.MetricName)
		family, ok := Of(families, name)
		if !ok {
			continue
		}
		page := exposed(family, stored)
		w.series[name] = append(w.series[name], page)
		page.Range(func(l labels.Label) {
			if !slices.Contains(w.values[l.Name], l.Value) {
				w.values[l.Name] = append(w.values[l.Name], l.Value)
			}
		})
	}
	return w, found.Err()
}

// added lists labels that a scrape adds to a series.
var added = []string{"cluster", "namespace", "pod", "container", "job", "instance", "service", "endpoint"}

// exposed converts the labels of a stored series to those on its page.
func exposed(f Family, stored labels.Labels) labels.Labels {
	b := labels.NewBuilder(stored)
	for _, l := range added {
		own := stored.Get("exported_" + l)
		if own == "" && slices.Contains(f.Labels, l) {
			own = stored.Get(l)
		}
		b.Set(l, own)
		b.Del("exported_" + l)
	}
	return b.Labels()
}

// targets returns the targets by which a tenant's page can be scraped: its pod in a job of its own; its pod
// in a job with the name of ours, because a Service has that name; and a process at the address of ours, on
// the network of its node.
func (w *World) targets() []labels.Labels {
	own := labels.FromStrings("cluster", "east", "namespace", "tenant", "pod", "t", "container", "main", "endpoint", "http", "service", "pods", "job", "pods", "instance", "10.6.6.6:80")
	out := []labels.Labels{own}
	for _, job := range []string{"gpuscale-exporter", "gpuscale-autoscaler", "gpuscale-adapter"} {
		out = append(out, labels.NewBuilder(own).Set("job", job).Set("service", job).Labels())
	}
	return append(out, labels.NewBuilder(own).Set("instance", "gpuscale-autoscaler-0:8080").Labels())
}

// Attacked returns the World's series followed by those of an attack.
func (w *World) Attacked(a Attack) storage.Queryable {
	forged, seen := map[string][]storage.Series{}, map[string]bool{}
	for _, f := range Families() {
		for _, name := range a.names(f) {
			points := a.points(w, f)
			for i := range a.Each {
				page := a.labels(w, f, name, i)
				for _, target := range w.targets() {
					ls := labels.NewBuilder(memstore.Scraped(page, target, false)).Set(labels.MetricName, name).Labels()
					if key := ls.String(); !seen[key] {
						seen[key] = true
						forged[name] = append(forged[name], promql.NewStorageSeries(promql.Series{Metric: ls, Floats: points.Floats, Histograms: points.Histograms}))
					}
				}
			}
		}
	}
	return &both{w.Queryable, forged}
}

type both struct {
	honest storage.Queryable
	more   map[string][]storage.Series // by name
}

// Querier implements storage.Queryable.
func (b *both) Querier(from, to int64) (storage.Querier, error) {
	honest, err := b.honest.Querier(from, to)
	if err != nil {
		return nil, err
	}
	return memstore.Querier(from, to, func(from, to int64, matchers []*labels.Matcher) []storage.Series {
		var out []storage.Series
		found := honest.Select(context.Background(), false, &storage.SelectHints{Start: from, End: to}, matchers...)
		for found.Next() {
			out = append(out, found.At())
		}
		for name, all := range b.more {
			if !memstore.MatchesName(name, matchers) {
				continue
			}
			for _, s := range all {
				if memstore.Matches(s.Labels(), matchers) {
					out = append(out, s)
				}
			}
		}
		return out
	}), nil
}

// With returns a storage with additional series.
func With(honest storage.Queryable, more ...storage.Series) storage.Queryable {
	b := &both{honest, map[string][]storage.Series{}}
	for _, s := range more {
		name := s.Labels().Get(labels.MetricName)
		b.more[name] = append(b.more[name], s)
	}
	return b
}

// every is the time between two samples of a forged series.
const every = 30 * time.Second

// over makes samples for the World's whole time range.
func (w *World) over(add func(to *promql.Series, i int, at time.Time)) (out promql.Series) {
	i := 0
	for at := w.From; !at.After(w.To); at = at.Add(every) {
		add(&out, i, at)
		i++
	}
	return out
}
