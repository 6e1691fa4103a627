package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// readTick reads the time and the planner's state.
func readTick(r *reader, s *plan.Snapshot) {
	r.text("at", func(v string) error {
		t, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(v, "@"))
		if err == nil {
			s.Now, r.now = t.UTC(), t.UTC()
		}
		return err
	})
	readTables(r, s)
	m := &s.State
	readStamps(r, "last-scale-up", &m.LastScaleUp)
	readStamps(r, "last-scale-down", &m.LastScaleDown)
	readStamps(r, "last-repartition", &m.LastRepartition)
	readStamps(r, "last-drain", &m.LastDrain)
	readStamps(r, "last-replace", &m.LastReplace)
	readStamps(r, "free-since", &m.FreeSince)
	readStamps(r, "unknown-since", &m.UnknownSince)
	readStamps(r, "sick-since", &m.SickSince)
	readGrown(r, "grown", &m.Grown)
	readGrown(r, "removed", &m.Removed)
	readFailures(r, &m.Failures)
}

func stateText(m plan.State, now time.Time) string {
	return stampsText("last-scale-up", m.LastScaleUp, now) +
		stampsText("last-scale-down", m.LastScaleDown, now) +
		stampsText("last-repartition", m.LastRepartition, now) +
		stampsText("last-drain", m.LastDrain, now) +
		stampsText("last-replace", m.LastReplace, now) +
		stampsText("free-since", m.FreeSince, now) +
		stampsText("unknown-since", m.UnknownSince, now) +
		stampsText("sick-since", m.SickSince, now) +
		grownText("grown", m.Grown, now) + grownText("removed", m.Removed, now) + failuresText(m.Failures, now)
}

// readStamps reads key=(name=5m …): five minutes ago.
func readStamps(r *reader, key string, v *[]plan.Stamp) {
	var stamps []plan.Stamp
	if r.items(key, func(it item) error {
		if len(it) != 1 || !it[0].isSet {
			return fmt.Errorf("want name=duration")
		}
		at, err := parseTime(it[0].value, r.now, -1)
		stamps = append(stamps, plan.Stamp{Name: it[0].name, At: at})
		return err
	}) {
		*v = stamps
	}
}

func stampsText(key string, stamps []plan.Stamp, now time.Time) string {
	words := make([]string, len(stamps))
	for i, s := range stamps {
		words[i] = quote(s.Name) + "=" + quote(timeText(s.At, now, -1))
	}
	return wordsText(key, words)
}

// readGrown reads grown=(pool=5:at=10m …), or removed=: five nodes, ten minutes ago.
func readGrown(r *reader, key string, v *[]plan.Growth) {
	var out []plan.Growth
	if r.items(key, func(it item) error {
		n, at, err := readCounted(it, r.now)
		out = append(out, plan.Growth{Pool: it[0].name, Nodes: n, At: at})
		return err
	}) {
		*v = out
	}
}

func grownText(key string, grown []plan.Growth, now time.Time) string {
	words := make([]string, len(grown))
	for i, g := range grown {
		words[i] = countedText(g.Pool, g.Nodes, g.At, now)
	}
	return wordsText(key, words)
}

// readFailures reads failures=(node/gpu=2:at=5m …): two, the last of them five
// minutes ago.
func readFailures(r *reader, v *[]plan.Failure) {
	var out []plan.Failure
	if r.items("failures", func(it item) error {
		n, at, err := readCounted(it, r.now)
		out = append(out, plan.Failure{Name: it[0].name, Count: n, At: at})
		return err
	}) {
		*v = out
	}
}

func failuresText(failures []plan.Failure, now time.Time) string {
	words := make([]string, len(failures))
	for i, f := range failures {
		words[i] = countedText(f.Name, f.Count, f.At, now)
	}
	return wordsText("failures", words)
}

// readCounted reads name=5:at=10m.
func readCounted(it item, now time.Time) (int, time.Time, error) {
	if len(it) != 2 || !it[0].isSet || it[1].name != "at" {
		return 0, time.Time{}, fmt.Errorf("want name=number:at=duration")
	}
	n, err := strconv.Atoi(it[0].value)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("%s: want a number: %q", it[0].name, it[0].value)
	}
	at, err := parseTime(it[1].value, now, -1)
	return n, at, err
}

func countedText(name string, n int, at, now time.Time) string {
	return fmt.Sprintf("%s=%d:at=%s", quote(name), n, quote(timeText(at, now, -1)))
}

func wordsText(key string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	return " " + key + "=(" + strings.Join(words, " ") + ")"
}
