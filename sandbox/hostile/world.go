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

// World is what Prometheus holds of honest targets between two times.
type World struct {
	storage.Queryable
	From, To time.Time

	values map[string][]string        // by label, as pages have them
	series map[string][]labels.Labels // by name, as pages have them
}

// Look reads a World, so that a tenant can imitate it.
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

// added are the labels that a scrape adds to a series.
var added = []string{"cluster", "namespace", "pod", "container", "job", "instance", "service", "endpoint"}

// exposed are a stored series' labels as its page has them.
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

// targets are those that a tenant can have scraped: its pod in a job of its own; in a job that has the
// name of ours, as a Service of the same name gives it; and at the address of ours, on its node's
// network.
func (w *World) targets() []labels.Labels {
	own := labels.FromStrings("cluster", "east", "namespace", "tenant", "pod", "t", "container", "main", "endpoint", "http", "service", "pods", "job", "pods", "instance", "10.6.6.6:80")
	out := []labels.Labels{own}
	for _, job := range []string{"gpuscale-exporter", "gpuscale-autoscaler", "gpuscale-adapter"} {
		out = append(out, labels.NewBuilder(own).Set("job", job).Set("service", job).Labels())
	}
	return append(out, labels.NewBuilder(own).Set("instance", "gpuscale-autoscaler-0:8080").Labels())
}

// Attacked is the World with an attack's series in it, which come after the honest ones.
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

// With returns a storage with more series.
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

// over makes points over the world's time.
func (w *World) over(add func(to *promql.Series, i int, at time.Time)) (out promql.Series) {
	i := 0
	for at := w.From; !at.After(w.To); at = at.Add(every) {
		add(&out, i, at)
		i++
	}
	return out
}
