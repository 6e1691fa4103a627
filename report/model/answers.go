package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// answers are Prometheus' answers, with the grid that their lines are put on.
type answers struct {
	query.Answers
	coarse query.Grid
	models map[string]string // by GPU UUID
}

// values puts a line on the coarse grid.
func (a answers) values(l prom.Line) []float64 { return ledger.Values(l, a.coarse) }

// byKind returns values of lines by a label, then by the label "kind".
func (a answers) byKind(id query.ID, label string) map[string]map[string][]float64 {
	all := map[string]map[string][]float64{}
	for _, l := range a.Lines[id] {
		of := l.Labels.Get(label)
		if all[of] == nil {
			all[of] = map[string][]float64{}
		}
		all[of][l.Labels.Get(metric.LabelKind)] = a.values(l)
	}
	return all
}

// total is the sum of a line's values in hours.
func (a answers) total(values []float64) float64 { return sum(known(values)) * a.coarse.Step.Hours() }

// last is the newest value, if it is no older than five minutes or one step.
func (a answers) last(values []float64) Number {
	back := int(5*time.Minute/a.coarse.Step) + 1
	for i := len(values) - 1; i >= 0 && i >= len(values)-back; i-- {
		if !math.IsNaN(values[i]) {
			return Known(values[i])
		}
	}
	return Unknown("no value at the end of the window")
}

// grown returns the growth of counters, summed by the key that of returns. Growth is known from the moment
// since: the first sample of the program that exposes the counters.
func (a answers) grown(id query.ID, since int, of func(prom.Labels) string) map[string]float64 {
	sums := map[string]float64{}
	for _, l := range a.Lines[id] {
		sums[of(l.Labels)] += ledger.Grown(a.values(l), since)
	}
	return sums
}

// autoscalerSince is the first moment of the coarse grid at which the autoscaler's series exist.
func (a answers) autoscalerSince() int { return ledger.Known(a.Lines[query.GPUs], a.coarse) }

func gpuModels(a query.Answers) map[string]string {
	models := map[string]string{}
	note := func(ls prom.Labels) {
		if model := ls.Get(metric.LabelModel); model != "" {
			models[ls.Get(metric.LabelGPUUUID)] = model
		}
	}
	for _, l := range a.Lines[query.MemoryP99] {
		note(l.Labels)
	}
	for _, s := range a.Vectors[query.Devices] {
		note(s.Labels)
	}
	return models
}

// open says which of the queries was not answered completely; it is "" if all were. A missing answer is not
// zero.
func (a answers) open(ids ...query.ID) string {
	for _, p := range a.Problems {
		if slices.Contains(ids, p.ID) {
			return fmt.Sprintf("the query %q was not answered in full: %s", p.ID, p.Err)
		}
	}
	return ""
}

// unless returns the number, or unknown if one of its queries was not answered completely.
func (a answers) unless(n Number, ids ...query.ID) Number {
	if why := a.open(ids...); why != "" {
		return Unknown(why)
	}
	return n
}

// waits reads the quantiles of a histogram by a label. The key "" has the quantiles of the whole histogram.
func (a answers) waits(id query.ID, label string) map[string]Wait {
	histograms, since := map[string]histogram{"": {}}, a.autoscalerSince()
	for _, l := range a.Lines[id] {
		bound, err := strconv.ParseFloat(l.Labels.Get("le"), 64)
		if err != nil {
			continue
		}
		grown := ledger.Grown(a.values(l), since)
		for _, of := range slices.Compact([]string{"", l.Labels.Get(label)}) {
			if histograms[of] == nil {
				histograms[of] = histogram{}
			}
			histograms[of][bound] += grown
		}
	}
	all := map[string]Wait{}
	for of, h := range histograms {
		all[of] = a.wait(cmp.Or(of, "all"), h, a.open(id))
	}
	return all
}

// wait reads the quantiles of one histogram. If nothing was observed they are unknown; lost is the reason if
// the query was not answered completely.
func (a answers) wait(of string, h histogram, lost string) Wait {
	why, count := "", h[math.Inf(1)]
	switch {
	case !a.Autoscaler:
		why = noAutoscaler
	case count < 0.5:
		why = cmp.Or(lost, "no pod was bound in the window")
	default:
		return Wait{of, Known(math.Round(count)), h.quantile(0.5), h.quantile(0.95), h.quantile(0.99)}
	}
	none := Unknown(why)
	return Wait{of, none, none, none, none}
}
