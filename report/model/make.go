package model

import (
	"cmp"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/prices"
	"github.com/gpuscale/gpuscale/report/query"
)

// Input is everything that a report is computed from.
type Input struct {
	Answers query.Answers
	// Prices replaces the prices of the pools; nil if there is no price list.
	Prices *prices.List
	// Currency is the currency of the pools' prices, which do not state one; empty for "cost units".
	Currency  string
	Version   string
	Generated time.Time
}

// Make computes the report. It never fails: what is unknown stays unknown, with the reason.
func Make(in Input) Report {
	w, led := in.Answers.Window, ledger.Make(in.Answers)
	a := answers{in.Answers, w.Grid(w.Coarse), gpuModels(in.Answers)}
	c, work := newPricing(a, in, led), workloads(a)
	r := Report{
		Schema: Schema, Version: in.Version, Generated: in.Generated.UTC().Truncate(time.Second),
		Window: Window{From: w.From, Until: w.Until, Hours: w.Length().Hours()}, Currency: c.currency,
		Hours: hoursOf(w, led, c), Demand: demandOf(a), Use: useOf(a, led, c), Pools: poolsOf(a, led, c), MIG: migOf(a, work),
		Reliability: reliabilityOf(a, led, c), Methods: methods(in.Answers),
	}
	r.Forecast = forecastOf(a, led, limits(a, r.Pools, c))
	r.Answer.Quality = qualityOf(a, led, c.source)
	r.Answer.Figures = figures(r.Hours, r.Demand, a)
	r.Answer.Text = paragraph(&r, led.Blank)
	r.Actions = actions(&r, a, c, work)
	noNil(reflect.ValueOf(&r).Elem())
	return r
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

// noExporter and noAutoscaler are reasons why a figure is unknown.
const (
	noExporter   = "Prometheus has no gpu_info, so no exporter is scraped"
	noAutoscaler = "Prometheus has no series of gpuscale-autoscaler"
)

// known returns the known values of a line. Each value stands for the step before it, so the first is left
// out.
func known(values []float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values[min(1, len(values)):]), math.IsNaN)
}

func sum(values []float64) (sum float64) {
	for _, v := range values {
		sum += v
	}
	return sum
}

// mean is the mean of the known values.
func mean(values []float64) Number {
	all := known(values)
	if len(all) == 0 {
		return Unknown("no value in the window")
	}
	return Known(sum(all) / float64(len(all)))
}

// addUp adds values to sums. Where neither has a value, the sum stays NaN.
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

// keys returns the sorted keys of a map.
func keys[K cmp.Ordered, V any](all map[K]V) []K { return slices.Sorted(maps.Keys(all)) }

// values returns the values of a map in the order of the keys.
func values[K cmp.Ordered, V any](all map[K]*V) (out []V) {
	for _, k := range keys(all) {
		out = append(out, *all[k])
	}
	return out
}

// entry returns the value of a key. If there is none, it adds a copy of begin.
func entry[K comparable, V any](all map[K]*V, key K, begin V) *V {
	v, ok := all[key]
	if !ok {
		v = &begin
		all[key] = v
	}
	return v
}

// most sorts by a figure, the largest first; equal ones by name.
func most[T any](all []T, figure func(T) Number, name func(T) string) {
	slices.SortStableFunc(all, func(a, b T) int {
		return cmp.Or(cmp.Compare(figure(b).Or(-1), figure(a).Or(-1)), strings.Compare(name(a), name(b)))
	})
}
