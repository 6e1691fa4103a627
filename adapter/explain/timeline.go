package explain

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/adapter/provider"
)

// TimelineVersion of the JSON. Fields are added to it, never changed.
const TimelineVersion = "gpuscale.simulate/v1"

// Timeline is the result of a simulation.
type Timeline struct {
	Version   string    `json:"version"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Step      string    `json:"step"`
	Load      Load      `json:"load"`
	Metrics   []string  `json:"metrics"`
	// Left are the metrics left out, each with its reason.
	Left    []string `json:"leftOut,omitempty"`
	Initial int32    `json:"initialReplicas"`
	Moments []Moment `json:"moments"`
	Summary Summary  `json:"summary"`
}

// Summary adds a timeline up. Durations are in seconds.
type Summary struct {
	Ups             int     `json:"scaleUps"`
	Downs           int     `json:"scaleDowns"`
	AtMaxSeconds    float64 `json:"atMaxSeconds"`
	UnknownSeconds  float64 `json:"unknownSeconds"`
	ReplicaHours    float64 `json:"replicaHours"`
	RecordedHours   float64 `json:"recordedReplicaHours"`
	HighestReplicas int32   `json:"highestReplicas"`
	LowestReplicas  int32   `json:"lowestReplicas"`
}

// summarize fills in the summary. maximum is the HPA's maxReplicas.
func (t *Timeline) summarize(step time.Duration, maximum int32) {
	s, before := Summary{LowestReplicas: math.MaxInt32}, t.Initial
	for _, m := range t.Moments {
		switch {
		case m.Replicas > before:
			s.Ups++
		case m.Replicas < before:
			s.Downs++
		}
		if m.Replicas >= maximum {
			s.AtMaxSeconds += step.Seconds()
		}
		if m.Unknown {
			s.UnknownSeconds += step.Seconds()
		}
		s.ReplicaHours += float64(m.Replicas) * step.Hours()
		s.RecordedHours += float64(m.Recorded) * step.Hours()
		s.HighestReplicas, s.LowestReplicas = max(s.HighestReplicas, m.Replicas), min(s.LowestReplicas, m.Replicas)
		before = m.Replicas
	}
	t.Summary = s
}

// CSV writes one line for each step.
func (t Timeline) CSV(out io.Writer) error {
	w := csv.NewWriter(out)
	_ = w.Write(append(append([]string{"at"}, t.Metrics...), "proposed", "replicas", "recorded", "why", "limited", "error")) // Flush's error is kept
	for _, m := range t.Moments {
		line := []string{m.At.UTC().Format(time.RFC3339)}
		for _, v := range m.Values {
			line = append(line, valueText(v, ""))
		}
		_ = w.Write(append(line, strconv.Itoa(int(m.Proposed)), strconv.Itoa(int(m.Replicas)), strconv.Itoa(m.Recorded), m.Why, m.Limited, m.Error))
	}
	w.Flush()
	return w.Error()
}

func valueText(v *float64, unknown string) string {
	if v == nil {
		return unknown
	}
	return short(*v)
}

// maxChanges bounds the changes listed in text; JSON and CSV have every step.
const maxChanges = 60

// Text writes the timeline as plain text: curves, changes and sums.
func (t Timeline) Text(out io.Writer) error {
	p := &printer{}
	p.line("HPA %s/%s from %s to %s, a step each %s, load %s", t.Namespace, t.Name, t.From.UTC().Format(time.RFC3339), t.To.UTC().Format(time.RFC3339), t.Step, t.Load)
	for _, left := range t.Left {
		p.line("left out: %s", left)
	}
	p.line("")
	for i, name := range t.Metrics {
		p.line("%s  %s", t.curve(func(m Moment) *float64 { return m.Values[i] }), name)
	}
	p.line("%s  replicas simulated", t.curve(func(m Moment) *float64 { v := float64(m.Replicas); return &v }))
	p.line("%s  replicas recorded", t.curve(func(m Moment) *float64 { v := float64(m.Recorded); return &v }))
	p.line("")
	t.changes(p)
	s := t.Summary
	p.line("")
	p.line("%s, %s; %d to %d replicas; at maxReplicas for %s; unknown for %s", provider.Count(s.Ups, "scale-up"), provider.Count(s.Downs, "scale-down"),
		s.LowestReplicas, s.HighestReplicas, period(s.AtMaxSeconds), period(s.UnknownSeconds))
	p.line("%s replica-hours simulated, %s recorded", short(s.ReplicaHours), short(s.RecordedHours))
	p.line("")
	p.line("%s", t.limits())
	_, err := io.WriteString(out, p.plain())
	return err
}

func period(seconds float64) string { return (time.Duration(seconds) * time.Second).String() }

// limits describes what the simulation cannot know.
func (t Timeline) limits() string {
	s := "The values are those of the recorded pods: with other replicas the load would have been different. "
	if t.Load == Total {
		s += "Averages are scaled as if the replicas shared the recorded total; "
	} else {
		s += "They are used as recorded (--load=total divides them among the replicas); "
	}
	return s + "new pods are ready at once. A past pod's workload is derived from its name, its lifetime from its samples."
}

// changes lists the steps at which something changed.
func (t Timeline) changes(p *printer) {
	before, unknown, listed, layout := t.Initial, false, 0, time.TimeOnly
	if t.To.Sub(t.From) >= 24*time.Hour {
		layout = "01-02 " + time.TimeOnly
	}
	for _, m := range t.Moments {
		if m.Replicas == before && m.Unknown == unknown {
			continue
		}
		if listed++; listed > maxChanges {
			p.line("… and more: see -o csv")
			return
		}
		values := make([]string, len(m.Values))
		for i, v := range m.Values {
			values[i] = valueText(v, "unknown")
		}
		text := fmt.Sprintf("%s  %3d → %-3d  %s", m.At.UTC().Format(layout), before, m.Replicas, strings.Join(values, ", "))
		switch {
		case m.Unknown:
			text += "  " + m.Error
		case m.Replicas == before:
			text += "  known again"
		default:
			text += fmt.Sprintf("  proposal %d, %s", m.Proposed, m.Why)
			if m.Limited != "" {
				text += " (" + m.Limited + ")"
			}
		}
		p.line("%s", text)
		before, unknown = m.Replicas, m.Unknown
	}
	if listed == 0 {
		p.line("nothing changed")
	}
}

const columns = 60

// curve draws the highest value of each interval; · is unknown.
func (t Timeline) curve(of func(Moment) *float64) string {
	var values [columns]float64
	var known [columns]bool
	top := 0.0
	width := min(columns, len(t.Moments))
	for i, m := range t.Moments {
		v := of(m)
		if v == nil {
			continue
		}
		c := i * width / len(t.Moments)
		if !known[c] || *v > values[c] {
			values[c], known[c] = *v, true
		}
		top = max(top, *v)
	}
	var b strings.Builder
	blocks := []rune("▁▂▃▄▅▆▇█")
	for c := range width {
		switch {
		case !known[c]:
			b.WriteRune('·')
		case top <= 0:
			b.WriteRune(blocks[0])
		default:
			b.WriteRune(blocks[int(math.Round(max(0, values[c])/top*float64(len(blocks)-1)))])
		}
	}
	return fmt.Sprintf("%s up to %s", b.String(), short(top))
}
