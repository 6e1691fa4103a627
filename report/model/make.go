package model

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
)

// Input is all that a report is computed from.
type Input struct {
	Answers query.Answers
	// Prices overrides the prices of the pools; nil for none.
	Prices *prices.List
	// Currency of the pools' prices, which do not state it; empty for "cost units".
	Currency  string
	Version   string
	Generated time.Time
}

// maker computes a report.
type maker struct {
	Input
	a      query.Answers
	l      ledger.Ledger
	coarse query.Grid
	r      *Report
	gpus   gpuPrices
	models map[string]string // of a GPU's UUID
	work   map[workKey]*work
}

// Make computes the report. It never fails: what is not known is unknown, with the reason.
func Make(in Input) Report {
	m := &maker{Input: in, a: in.Answers, l: ledger.Make(in.Answers), r: &Report{Schema: Schema, Version: in.Version, Generated: in.Generated.UTC().Truncate(time.Second)}}
	w := m.a.Window
	m.coarse = w.Grid(w.Coarse)
	m.r.Window = Window{From: w.From, Until: w.Until, Hours: w.Length().Hours()}
	m.gpus = m.newGPUPrices()
	m.r.Currency = m.gpus.currency
	m.models = m.gpuModels()
	m.r.Hours = m.hours()
	m.r.Demand = m.demand()
	m.r.Use = m.use()
	m.r.Pools = m.pools()
	m.work = m.workloads()
	m.r.MIG = m.mig()
	m.r.Forecast = m.forecast()
	m.r.Reliability = m.reliability()
	m.r.Answer.Quality = m.quality()
	m.actions()
	m.r.Answer.Figures = m.figures()
	m.r.Answer.Text = m.text()
	m.r.Methods = m.methods()
	noNil(reflect.ValueOf(m.r).Elem())
	return *m.r
}

// Check reports whether the places add up to the capacity.
func (r Report) Check() error {
	sum, known := r.Hours.Sum.Get()
	capacity, also := r.Hours.Capacity.Get()
	if known && also && math.Abs(sum-capacity) > ledger.Tolerance*capacity {
		return fmt.Errorf("the places add up to %.2f hours, the capacity is %.2f", sum, capacity)
	}
	return nil
}

// noNil makes nil lists empty: in JSON they are [], not null.
func noNil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				noNil(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			noNil(v.Index(i))
		}
	}
}

const hour = 3600.0

// noExporter and noAutoscaler are why a figure is unknown.
const (
	noExporter   = "no gpu_info series: the exporter is not scraped"
	noAutoscaler = "no series of gpuscale-autoscaler"
)

// values puts a line on the coarse grid.
func (m *maker) values(l prom.Line) []float64 { return ledger.Values(l, m.coarse) }

// byKind are the values of lines by a label, and then by the label "kind".
func (m *maker) byKind(id query.ID, label string) map[string]map[string][]float64 {
	all := map[string]map[string][]float64{}
	for _, l := range m.a.Lines[id] {
		of := l.Labels.Get(label)
		if all[of] == nil {
			all[of] = map[string][]float64{}
		}
		all[of][l.Labels.Get(metric.LabelKind)] = m.values(l)
	}
	return all
}

// known are a line's values, each standing for the step before it: not the first.
func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values[min(1, len(values)):]), math.IsNaN)
}

func sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// total is the sum of a line's values in hours.
func (m *maker) total(values []float64) float64 { return sum(known(values)) * m.coarse.Step.Hours() }

// mean is over the known values.
func mean(values []float64) Number {
	all := known(values)
	if len(all) == 0 {
		return Unknown("no value in the window")
	}
	return Known(sum(all) / float64(len(all)))
}

// addUp adds values to sums; what neither has stays NaN.
func addUp(sums, values []float64) {
	for i, v := range values {
		switch {
		case math.IsNaN(v):
		case math.IsNaN(sums[i]):
			sums[i] = v
		default:
			sums[i] += v
		}
	}
}

// last is the newest value, if it is no older than five minutes or a step.
func (m *maker) last(values []float64) Number {
	back := int(5*time.Minute/m.coarse.Step) + 1
	for i := len(values) - 1; i >= 0 && i >= len(values)-back; i-- {
		if !math.IsNaN(values[i]) {
			return Known(values[i])
		}
	}
	return Unknown("no value at the end of the window")
}

// grown is the growth of counters, added up by the key that of returns. It is known from
// the first sample of the program that exposes them.
func (m *maker) grown(id query.ID, since int, of func(prom.Labels) string) map[string]float64 {
	sums := map[string]float64{}
	for _, l := range m.a.Lines[id] {
		sums[of(l.Labels)] += ledger.Grown(m.values(l), since)
	}
	return sums
}

// autoscalerSince is the first moment of the coarse grid with the autoscaler's series.
func (m *maker) autoscalerSince() int { return ledger.Known(m.a.Lines[query.GPUs], m.coarse) }

func (m *maker) gpuModels() map[string]string {
	models := map[string]string{}
	note := func(ls prom.Labels) {
		if model := ls.Get(metric.LabelModel); model != "" {
			models[ls.Get(metric.LabelGPUUUID)] = model
		}
	}
	for _, l := range m.a.Lines[query.MemoryP99] {
		note(l.Labels)
	}
	for _, s := range m.a.Vectors[query.Devices] {
		note(s.Labels)
	}
	return models
}

// keys of a map, in order.
func keys[K cmp.Ordered, V any](all map[K]V) []K { return slices.Sorted(maps.Keys(all)) }

// values of a map, in the order of their keys.
func values[K cmp.Ordered, V any](all map[K]*V) (out []V) {
	for _, k := range keys(all) {
		out = append(out, *all[k])
	}
	return out
}

// entry returns the value of a key, a new one if there is none.
func entry[K comparable, V any](all map[K]*V, key K, begin V) *V {
	v, ok := all[key]
	if !ok {
		v = &begin
		all[key] = v
	}
	return v
}

// most sorts by a figure, the largest first, and by name where they are the same.
func most[T any](all []T, figure func(T) Number, name func(T) string) {
	slices.SortStableFunc(all, func(a, b T) int {
		return cmp.Or(cmp.Compare(figure(b).Or(-1), figure(a).Or(-1)), strings.Compare(name(a), name(b)))
	})
}

// open names a query that was not answered in full; it is empty where all were. A
// missing answer is not a zero.
func (m *maker) open(ids ...query.ID) string {
	for _, p := range m.a.Problems {
		if slices.Contains(ids, p.ID) {
			return fmt.Sprintf("the query %q was not answered in full: %s", p.ID, p.Err)
		}
	}
	return ""
}

// unless returns the number, unknown where any of its queries was not answered in full.
func (m *maker) unless(n Number, ids ...query.ID) Number {
	if why := m.open(ids...); why != "" {
		return Unknown(why)
	}
	return n
}

// lacks joins what a section lacks.
func lacks(reasons ...string) string {
	return strings.Join(slices.DeleteFunc(reasons, func(s string) bool { return s == "" }), "; ")
}
