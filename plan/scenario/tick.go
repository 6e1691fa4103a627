package scenario

import (
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
		{"last-drain", &m.LastDrain}, {"last-regret", &m.LastRegret}, {"last-replace", &m.LastReplace}, {"free-since", &m.FreeSince},
		{"unknown-since", &m.UnknownSince}, {"short-since", &m.ShortSince}, {"sick-since", &m.SickSince}} {
		timesField(x, f.key, f.times)
	}
	growthField(x, "grown", &m.Grown)
	growthField(x, "removed", &m.Removed)
	var failures []counted
	for name, f := range sorted(m.Failures) {
		failures = append(failures, counted{name, f.Count, f.At})
	}
	if list(x, "failures", &failures, countedEntry) {
		m.Failures = map[string]plan.Failure{}
		for _, f := range failures {
			m.Failures[f.name] = plan.Failure{Count: f.n, At: f.at}
		}
	}
}

// counted is a number with a time: five nodes, or the fifth failure, ten minutes ago.
type counted struct {
	name string
	n    int
	at   time.Time
}

// countedEntry is name=5:at=10m.
func countedEntry(x *fields, c *counted) {
	x.name(&c.name)
	x.count(c.name, &c.n)
	if !x.timeUnless(false, "at", &c.at, ago) && x.out == nil {
		x.fail("at", "want it: name=number:at=duration")
	}
}

func growthField(x *fields, key string, v *map[string][]plan.Growth) {
	var all []counted
	for pool, grown := range sorted(*v) {
		for _, g := range grown {
			all = append(all, counted{pool, g.Nodes, g.At})
		}
	}
	if list(x, key, &all, countedEntry) {
		*v = map[string][]plan.Growth{}
		for _, g := range all {
			(*v)[g.name] = append((*v)[g.name], plan.Growth{Nodes: g.n, At: g.at})
		}
	}
}

// timesField is key=(name=5m …): five minutes ago.
func timesField(x *fields, key string, v *plan.Times) {
	var all []counted
	for name, at := range sorted(*v) {
		all = append(all, counted{name: name, at: at})
	}
	if list(x, key, &all, func(x *fields, c *counted) { x.name(&c.name); x.timeUnless(false, c.name, &c.at, ago) }) {
		*v = plan.Times{}
		for _, c := range all {
			(*v)[c.name] = c.at
		}
	}
}

// tableFields is tables=("MODEL 7 8 81559 0 1g.10gb:0,1,2:1:7 …" …), each table as a node
// publishes it.
func tableFields(x *fields, v *mig.Tables) {
	var specs []mig.Spec
	for _, t := range *v {
		specs = append(specs, t.Spec())
	}
	if !list(x, "tables", &specs, func(x *fields, s *mig.Spec) {
		x.head(s.String, func(text string) (err error) { *s, err = mig.ParseSpec(text); return err })
	}) {
		return
	}
	tables, err := mig.NewTables(specs...)
	if err != nil {
		x.fail("tables", "%v", err)
	}
	*v = tables
}
