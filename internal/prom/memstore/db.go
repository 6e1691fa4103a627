package memstore

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
)

// DB holds what a Prometheus stores of the targets that it scrapes. The zero DB is
// empty.
type DB struct {
	byName map[string][]*Recorded
	known  map[string]*Recorded   // by target and exposed labels
	last   map[string][]*Recorded // of a target's last scrape
}

// Recorded is a series and its values in order of time.
type Recorded struct {
	Labels labels.Labels
	Points []promql.FPoint
}

// Exposed is a value of a target's page; its name is the label __name__.
type Exposed struct {
	Labels labels.Labels
	Value  float64
}

// Add appends a value.
func (r *Recorded) Add(ms int64, v float64) {
	r.Points = append(r.Points, promql.FPoint{T: ms, F: v})
}

// End marks that a series has ended, as Prometheus does.
func (r *Recorded) End(ms int64) { r.Add(ms, math.Float64frombits(value.StaleNaN)) }

// Between returns the series between two times in milliseconds, both included; nil if it has no
// value there.
func (r *Recorded) Between(from, to int64) storage.Series {
	at := func(t int64) int {
		i, _ := slices.BinarySearchFunc(r.Points, t, func(p promql.FPoint, t int64) int { return cmp.Compare(p.T, t) })
		return i
	}
	i, j := at(from), at(to+1)
	if i >= j {
		return nil
	}
	return promql.NewStorageSeries(promql.Series{Metric: r.Labels, Floats: r.Points[i:j]})
}

// Scrape records what a target exposes, as Prometheus' scrape loop does. An exposed label that
// the target has as well is kept with honor_labels; otherwise it is moved to exported_. A
// series of the last scrape that this one lacks has ended. A target that is down or gone
// exposes nothing.
func (d *DB) Scrape(at time.Time, target labels.Labels, honor bool, exposed []Exposed) {
	if d.byName == nil {
		d.byName, d.known, d.last = map[string][]*Recorded{}, map[string]*Recorded{}, map[string][]*Recorded{}
	}
	ms := at.UnixMilli()
	id := target.String()
	key := []byte(id)
	var now []*Recorded
	for _, e := range exposed {
		key = append(key[:len(id)], e.Labels.Bytes(nil)...)
		r := d.known[string(key)]
		if r == nil {
			r = d.series(Scraped(e.Labels, target, honor))
			d.known[string(key)] = r
		}
		r.Add(ms, e.Value)
		now = append(now, r)
	}
	for _, r := range d.last[id] {
		if r.Points[len(r.Points)-1].T != ms {
			r.End(ms)
		}
	}
	d.last[id] = now
}

// series returns the series with these labels, a known one for a target that is back.
func (d *DB) series(ls labels.Labels) *Recorded {
	name := ls.Get(labels.MetricName)
	for _, r := range d.byName[name] {
		if labels.Equal(r.Labels, ls) {
			return r
		}
	}
	r := &Recorded{Labels: ls}
	d.byName[name] = append(d.byName[name], r)
	return r
}

// Scraped returns the labels of a series. With honor_labels exposed labels win; an
// empty exposed label removes the target's.
func Scraped(exposed, target labels.Labels, honor bool) labels.Labels {
	b := labels.NewBuilder(exposed)
	target.Range(func(l labels.Label) {
		if honor && exposed.Has(l.Name) {
			return
		}
		if clash := exposed.Get(l.Name); clash != "" {
			b.Set("exported_"+l.Name, clash)
		}
		b.Set(l.Name, l.Value)
	})
	return b.Labels()
}

// Names of all series, sorted.
func (d *DB) Names() []string { return slices.Sorted(maps.Keys(d.byName)) }

// Named are the series of a name, in the order of recording.
func (d *DB) Named(name string) []*Recorded { return d.byName[name] }

// Without returns the DB without the series whose names begin with prefix. The result must not
// be scraped into.
func (d *DB) Without(prefix string) *DB {
	o := &DB{byName: maps.Clone(d.byName)}
	maps.DeleteFunc(o.byName, func(name string, _ []*Recorded) bool { return strings.HasPrefix(name, prefix) })
	return o
}

// Querier implements storage.Queryable.
func (d *DB) Querier(from, to int64) (storage.Querier, error) { return Querier(from, to, d.find), nil }

func (d *DB) find(from, to int64, matchers []*labels.Matcher) []storage.Series {
	var found []storage.Series
	for name, all := range d.byName {
		if !MatchesName(name, matchers) {
			continue
		}
		for _, r := range all {
			if !Matches(r.Labels, matchers) {
				continue
			}
			if s := r.Between(from, to); s != nil {
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return found
}
