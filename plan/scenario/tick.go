package scenario

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/plan"
)

// tickFields are the time and the planner's state.
func tickFields(x *fields, s *plan.Snapshot) {
	x.value("at", false, func() string { return "@" + s.Now.UTC().Format(time.RFC3339Nano) }, func(v string) error {
		t, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(v, "@"))
		if err == nil {
			s.Now, x.now = t.UTC(), t.UTC()
		}
		return err
	})
	tableFields(x, &s.Tables)
	m := &s.State
	for _, f := range []struct {
		key   string
		times *plan.Times
	}{{"last-scale-up", &m.LastScaleUp}, {"last-scale-down", &m.LastScaleDown}, {"last-repartition", &m.LastRepartition},
		{"last-drain", &m.LastDrain}, {"last-replace", &m.LastReplace}, {"free-since", &m.FreeSince},
		{"unknown-since", &m.UnknownSince}, {"short-since", &m.ShortSince}, {"sick-since", &m.SickSince}} {
		timesField(x, f.key, f.times)
	}
	growthField(x, "grown", &m.Grown)
	growthField(x, "removed", &m.Removed)
	var failures []counted
	for name, f := range sorted(m.Failures) {
		failures = append(failures, counted{name, f.Count, f.At})
	}
	if countedField(x, "failures", &failures) {
		m.Failures = map[string]plan.Failure{}
		for _, f := range failures {
			m.Failures[f.name] = plan.Failure{Count: f.n, At: f.at}
		}
	}
}

// sorted ranges over a map by name.
func sorted[M ~map[string]V, V any](m M) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// timesField is key=(name=5m …): five minutes ago.
func timesField(x *fields, key string, v *plan.Times) {
	m := plan.Times{}
	if x.items(key, func() (words []string) {
		for name, at := range sorted(*v) {
			words = append(words, quote(name)+"="+quote(timeText(at, x.now, ago)))
		}
		return words
	}, func(it item) (err error) {
		if len(it) != 1 || !it[0].isSet {
			return fmt.Errorf("want name=duration")
		}
		m[it[0].name], err = parseTime(it[0].value, x.now, ago)
		return err
	}) {
		*v = m
	}
}

func growthField(x *fields, key string, v *map[string][]plan.Growth) {
	var all []counted
	for pool, list := range sorted(*v) {
		for _, g := range list {
			all = append(all, counted{pool, g.Nodes, g.At})
		}
	}
	if countedField(x, key, &all) {
		*v = map[string][]plan.Growth{}
		for _, g := range all {
			(*v)[g.name] = append((*v)[g.name], plan.Growth{Nodes: g.n, At: g.at})
		}
	}
}

// counted is name=5:at=10m: five, or the fifth, ten minutes ago.
type counted struct {
	name string
	n    int
	at   time.Time
}

func countedField(x *fields, key string, v *[]counted) bool {
	return parts(x, key, v, func(c counted) string { return quote(c.name) + "=" + strconv.Itoa(c.n) }, func(s segment) (counted, error) {
		n, err := strconv.Atoi(s.value)
		if !s.isSet {
			err = fmt.Errorf("want name=number:at=duration")
		}
		return counted{name: s.name, n: n}, plainly(err)
	}, func(x *fields, c *counted) {
		if !x.timeUnless(false, "at", &c.at, ago) && x.out == nil {
			x.fail("at", "want it: name=number:at=duration")
		}
	})
}

// tableFields is tables=("MODEL 7 8 81559 0 1g.10gb:0,1,2:1:7 …" …), each as a node
// publishes it.
func tableFields(x *fields, v *mig.Tables) {
	var specs []mig.Spec
	for _, t := range *v {
		specs = append(specs, t.Spec())
	}
	if !list(x, "tables", &specs, func(s mig.Spec) string { return quote(s.String()) }, func(it item) (mig.Spec, error) {
		if len(it) != 1 || it[0].isSet {
			return mig.Spec{}, fmt.Errorf("a table is one quoted word")
		}
		return mig.ParseSpec(it[0].name)
	}) {
		return
	}
	tables, err := mig.NewTables(specs...)
	if err != nil {
		x.fail("tables", "%v", err)
	}
	*v = tables
}
