package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/plan"
)

// Print writes a snapshot as scenario text. Parse of it gives an equal snapshot
// for every snapshot that passes Check: times to the nanosecond, in UTC; empty
// lists come back nil.
func Print(s plan.Snapshot) string {
	var b strings.Builder
	b.WriteString("tick at=" + quote("@"+s.Now.UTC().Format(time.RFC3339Nano)))
	b.WriteString(stampsText("last-scale-up", s.Memory.LastScaleUp, s.Now))
	b.WriteString(stampsText("last-scale-down", s.Memory.LastScaleDown, s.Now))
	b.WriteString(stampsText("last-repartition", s.Memory.LastRepartition, s.Now))
	b.WriteString(stampsText("free-since", s.Memory.FreeSince, s.Now))
	b.WriteString(stampsText("unknown-since", s.Memory.UnknownSince, s.Now))
	b.WriteByte('\n')
	for _, p := range s.Pools {
		b.WriteString(poolText(p, s.Now))
	}
	for _, n := range s.Nodes {
		b.WriteString(nodeText(n, s.Now))
	}
	for _, p := range s.Pods {
		b.WriteString(podText(p, s.Now))
	}
	return b.String()
}

func stampsText(key string, stamps []plan.Stamp, now time.Time) string {
	if len(stamps) == 0 {
		return ""
	}
	words := make([]string, len(stamps))
	for i, s := range stamps {
		words[i] = quote(s.Name) + "=" + quote(timeText(s.At, now, -1))
	}
	return " " + key + "=(" + strings.Join(words, " ") + ")"
}

// readTick reads the moment and what is remembered of earlier ones.
func readTick(r *reader, s *plan.Snapshot) {
	r.text("at", func(v string) error {
		t, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(v, "@"))
		if err == nil {
			s.Now, r.now = t.UTC(), t.UTC()
		}
		return err
	})
	m := &s.Memory
	for _, f := range []struct {
		key  string
		list *[]plan.Stamp
	}{{"last-scale-up", &m.LastScaleUp}, {"last-scale-down", &m.LastScaleDown},
		{"last-repartition", &m.LastRepartition}, {"free-since", &m.FreeSince},
		{"unknown-since", &m.UnknownSince}} {
		var stamps []plan.Stamp
		if r.items(f.key, func(it item) error {
			if len(it) != 1 || !it[0].isSet {
				return fmt.Errorf("want name=duration")
			}
			at, err := parseTime(it[0].value, r.now, -1)
			stamps = append(stamps, plan.Stamp{Name: it[0].name, At: at})
			return err
		}) {
			*f.list = stamps
		}
	}
}
