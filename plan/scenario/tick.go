package scenario

import (
	"fmt"
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
		key    string
		stamps *[]plan.Stamp
	}{{"last-scale-up", &m.LastScaleUp}, {"last-scale-down", &m.LastScaleDown}, {"last-repartition", &m.LastRepartition},
		{"last-drain", &m.LastDrain}, {"last-replace", &m.LastReplace}, {"free-since", &m.FreeSince},
		{"unknown-since", &m.UnknownSince}, {"short-since", &m.ShortSince}, {"sick-since", &m.SickSince}} {
		stampFields(x, f.key, f.stamps)
	}
	growth := func(g plan.Growth) string { return countedText(g.Pool, g.Nodes, g.At, x.now) }
	readGrowth := func(it item) (plan.Growth, error) {
		n, at, err := readCounted(it, x.now)
		return plan.Growth{Pool: it[0].name, Nodes: n, At: at}, err
	}
	list(x, "grown", &m.Grown, growth, readGrowth)
	list(x, "removed", &m.Removed, growth, readGrowth)
	list(x, "failures", &m.Failures, func(f plan.Failure) string { return countedText(f.Name, f.Count, f.At, x.now) }, func(it item) (plan.Failure, error) {
		n, at, err := readCounted(it, x.now)
		return plan.Failure{Name: it[0].name, Count: n, At: at}, err
	})
}

// stampFields is key=(name=5m …): five minutes ago.
func stampFields(x *fields, key string, v *[]plan.Stamp) {
	list(x, key, v, func(s plan.Stamp) string { return quote(s.Name) + "=" + quote(timeText(s.At, x.now, ago)) }, func(it item) (plan.Stamp, error) {
		if len(it) != 1 || !it[0].isSet {
			return plan.Stamp{}, fmt.Errorf("want name=duration")
		}
		at, err := parseTime(it[0].value, x.now, ago)
		return plan.Stamp{Name: it[0].name, At: at}, err
	})
}

// readCounted reads name=5:at=10m: five, or the fifth, ten minutes ago.
func readCounted(it item, now time.Time) (int, time.Time, error) {
	if len(it) != 2 || !it[0].isSet || it[1].name != "at" {
		return 0, time.Time{}, fmt.Errorf("want name=number:at=duration")
	}
	n, err := strconv.Atoi(it[0].value)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("%s: want a number: %q", it[0].name, it[0].value)
	}
	at, err := parseTime(it[1].value, now, ago)
	return n, at, err
}

func countedText(name string, n int, at, now time.Time) string {
	return fmt.Sprintf("%s=%d:at=%s", quote(name), n, quote(timeText(at, now, ago)))
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
