package view

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/text"
)

// missing is shown for every unknown value.
const missing = "n/a"

func number(v sample.Value, digits int, unit string) string {
	n, ok := v.Get()
	if !ok {
		return missing
	}
	return text.Thousands(strconv.FormatFloat(n, 'f', digits, 64)) + unit
}

func percent(v sample.Value) string {
	n, ok := v.Get()
	if !ok {
		return missing
	}
	return strconv.FormatFloat(100*n, 'f', 0, 64) + " %"
}

func clock(d time.Duration) string {
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d", s/60, s%60)
}

// sparkline draws the newest values, scaled to the largest.
func sparkline(values []float64) string {
	const blocks = "▁▂▃▄▅▆▇█"
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if most > 0 {
			i = min(7, max(0, int(v/most*7.999)))
		}
		b.WriteRune([]rune(blocks)[i])
	}
	return b.String()
}

// line is the live line.
func (f Figures) line(queue []float64) string {
	replicas := number(f.Replicas, 0, "")
	have, ok1 := f.Replicas.Get()
	want, ok2 := f.Wanted.Get()
	if ok1 && ok2 && have != want {
		replicas += " → " + number(f.Wanted, 0, "")
	}
	kinds := make([]string, 0, len(f.Slices))
	for _, s := range f.Slices {
		kinds = append(kinds, fmt.Sprintf("%s %d/%d", s.Name, s.Allocated, s.Total))
	}
	if len(kinds) == 0 {
		kinds = []string{missing}
	}
	nodes := number(f.Nodes, 0, "")
	if n, ok := f.Repartitioning.Get(); ok && n > 0 {
		nodes += fmt.Sprintf(", %.0f repartitioning", n)
	}
	if n, ok := f.Booting.Get(); ok && n > 0 {
		nodes += fmt.Sprintf(", %.0f booting", n)
	}
	return fmt.Sprintf("%s  %s  queue %s %s  TTFT p95 %s │ replicas %s │ %s │ nodes %s │ %s",
		clock(f.At), number(f.Rate, 1, " req/s"), number(f.Queue, 0, ""), sparkline(queue),
		number(f.TTFT, 1, " s"), replicas, strings.Join(kinds, "  "), nodes, number(f.PricePerHour, 2, " $/h"))
}

func (d Decision) line() string {
	kept := slices.DeleteFunc([]string{d.Reason, d.Detail}, func(s string) bool { return s == "" })
	return strings.TrimRight(fmt.Sprintf("  %s  %-12s %-20s %s", clock(d.At), d.What, d.Subject, strings.Join(kept, ": ")), " ")
}

func (s Summary) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "summary   %s requests in %s · p95 wait %s · %s pod-seconds pending\n",
		text.Thousands(strconv.Itoa(s.Requests)), clock(s.Length), number(s.WaitP95, 1, " s"), number(s.PendingSeconds, 0, ""))
	fmt.Fprintf(&b, "          first capacity by repartition after %s, by a node after %s\n",
		number(s.ByRepartition, 1, " s"), number(s.ByNode, 1, " s"))
	fmt.Fprintf(&b, "          %s GPU-hours, %s busy · %s wrong scale-downs\n",
		number(s.GPUHours, 2, ""), percent(s.Busy), number(s.WrongDowns, 0, ""))
	fmt.Fprintf(&b, "alerts    %s\n", s.Alerts.text())
	for i, st := range s.Took {
		head := "          "
		if i == 0 {
			head = "story     "
		}
		fmt.Fprintf(&b, "%s%s  %s\n", head, clock(st.At), st.Name)
	}
	return b.String()
}

func (a Alerts) text() string {
	if !a.Known {
		return missing
	}
	fired := "none fired"
	if len(a.Fired) > 0 {
		fired = "fired: " + listed(a.Fired)
	}
	if len(a.Pending) == 0 {
		return fired
	}
	return fired + " · pending: " + listed(a.Pending)
}

func listed(alerts []Alert) string {
	out := make([]string, len(alerts))
	for i, a := range alerts {
		out[i] = a.Name + " (" + a.Severity + ")"
	}
	return strings.Join(out, ", ")
}
