package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan/forecast"
	"github.com/gpuscale/gpuscale/report/ledger"
	"github.com/gpuscale/gpuscale/report/query"
)

// Forecast is section 6.
type Forecast struct {
	Outlooks []Outlook `json:"outlooks"`
	Note     string    `json:"note"`
}

// Outlook is the forecast of one pool, or of all pools together.
type Outlook struct {
	Of       string    `json:"of"`
	Limit    Number    `json:"limit" doc:"Most GPUs possible: of a pool at its maximum, else those at the end."`
	Past     []Point   `json:"past" doc:"GPUs allocated."`
	Ahead    []Band    `json:"ahead" doc:"GPUs expected; empty where there is not enough data."`
	Level    float64   `json:"level" doc:"Share of outcomes the band is meant to contain."`
	Method   string    `json:"method"`
	Error    BackTest  `json:"error" doc:"Back-test of the method at the last horizon."`
	Why      string    `json:"why" doc:"Why this method, or why there is no forecast."`
	Exhausts Exhausted `json:"exhausts"`
}

// Point is a number of GPUs at a time.
type Point struct {
	At   time.Time `json:"at"`
	GPUs Number    `json:"gpus"`
}

// Band is the number of GPUs that is expected at a time, as ranges.
type Band struct {
	At       time.Time `json:"at"`
	Low      Number    `json:"low"`
	Expected Number    `json:"expected"`
	High     Number    `json:"high"`
	Low95    Number    `json:"low95" doc:"Of the band that is meant to contain 95 %."`
	High95   Number    `json:"high95"`
}

// BackTest is the error of a forecast method on past data.
type BackTest struct {
	MAPE     Number `json:"mape" doc:"Mean error as a share of the actual value."`
	MASE     Number `json:"mase" doc:"Error relative to saying that nothing will change: below 1 is better."`
	Coverage Number `json:"coverage" doc:"Share of actual values inside the band."`
	Wide     Number `json:"coverage95" doc:"The same of the band that is meant to contain 95 %."`
	Tests    int    `json:"tests"`
}

// Exhausted says when the GPUs run out, as a range in days from the window's end.
type Exhausted struct {
	Earliest Number `json:"earliest" doc:"When the band's upper end reaches the limit."`
	Expected Number `json:"expected"`
	Latest   Number `json:"latest" doc:"When its lower end does."`
	Text     string `json:"text"`
}

// Bounds of section 6. A forecast reaches at most half as far as its data, and at most a month.
const (
	mostOutlooks = 6
	mostBands    = 48 // steps ahead
	farthest     = 30 * 24 * time.Hour
	mostPast     = 240 // points of the past
	bandLevel    = 0.8
	wideLevel    = 0.95
)

// forecastOf makes section 6; limits is the maximum number of GPUs by pool or model.
func forecastOf(a answers, led ledger.Ledger, limits map[string]Number) Forecast {
	f := Forecast{Note: "The forecast is of allocated GPUs; unserved demand is in section 2. The limit is the number of GPUs of a pool at its maximum, or without a maximum at the end of the window. The bands should contain 80 % and 95 % of outcomes; the table has what they contained in the past. GPUs run out between the times at which the upper and the lower end of the 80 % band reach the limit."}
	whole := series{name: "all GPUs", limit: Known(0)}
	by := map[string]*series{}
	for _, s := range led.Series {
		whole.sum(s.Allocated)
		name := outlookName(s.Pool, s.Model)
		entry(by, name, series{name: name, limit: Unknown("there were no GPUs at the end of the window")}).sum(s.Allocated)
		if limit, known := limits[name].Get(); known {
			by[name].limit = Known(limit)
		}
	}
	parts := values(by)
	for _, p := range parts {
		whole.limit = Known(whole.limit.Or(0) + p.limit.Or(0)) // sum of the known limits
	}
	slices.SortStableFunc(parts, func(a, b series) int { return cmp.Compare(b.limit.Or(0), a.limit.Or(0)) })
	if len(parts) > 1 {
		parts = append([]series{whole}, parts...)
	}
	if len(parts) > mostOutlooks {
		f.Note += fmt.Sprintf(" The %d smallest are not shown.", len(parts)-mostOutlooks)
		parts = parts[:mostOutlooks]
	}
	for _, p := range parts {
		f.Outlooks = append(f.Outlooks, outlook(p, a.Window, led.Grid))
	}
	return f
}

// series is the number of allocated GPUs on the ledger's grid, and its limit.
type series struct {
	name      string
	allocated []float64
	limit     Number
}

func (s *series) sum(allocated []float64) {
	if s.allocated == nil {
		s.allocated = slices.Clone(allocated)
		return
	}
	addUp(s.allocated, allocated)
}

// limits returns the maximum number of GPUs by pool, from its maximum of nodes. GPUs without a pool count by
// model, with their number at the end.
func limits(a answers, pools []Pool, c pricing) map[string]Number {
	all := map[string]Number{}
	for _, p := range pools {
		if size, ok := c.size[p.Pool]; ok && p.Pool != "" {
			all[p.Pool] = p.Max
			if v, ok := p.Max.Get(); ok {
				all[p.Pool] = size.Times(v)
			}
		}
	}
	sum := func(id query.ID, of func(prom.Labels) string, g query.Grid) {
		gpus := map[string]float64{}
		for _, l := range a.Lines[id] {
			if v := ledger.Values(l, g)[g.N]; !math.IsNaN(v) {
				gpus[of(l.Labels)] += v
			}
		}
		for name, n := range gpus {
			if _, ok := all[name].Get(); !ok && n > 0 {
				all[name] = Known(n)
			}
		}
	}
	sum(query.GPUs, func(ls prom.Labels) string { return outlookName(ls.Get(metric.LabelPool), ls.Get(metric.LabelModel)) }, a.coarse)
	sum(query.Nodes, func(ls prom.Labels) string { return gpu.ProductName(ls.Get(metric.LabelModel)) }, a.Window.Grid(a.Window.Step))
	return all
}

// outlookName is the pool's name, or the model's if there is no pool.
func outlookName(pool, model string) string {
	if pool == "" || pool == metric.NotApplicable {
		return gpu.ProductName(model)
	}
	return pool
}

// points averages the series over equal parts; it returns at most n points.
func (s series) points(g query.Grid, n int) []sample.Point {
	each := max(1, int(math.Ceil(float64(g.N)/float64(n))))
	var out []sample.Point
	for k := 1; k <= g.N; k += each {
		end := min(g.N, k+each-1)
		known := slices.DeleteFunc(slices.Clone(s.allocated[k:end+1]), math.IsNaN)
		if len(known) > 0 {
			out = append(out, sample.Point{At: g.At(end), Number: stat.Mean(known, nil)})
		}
	}
	return out
}

func outlook(s series, w query.Window, g query.Grid) Outlook {
	o := Outlook{Of: s.name, Limit: s.limit, Level: bandLevel}
	for _, p := range s.points(g, mostPast) {
		o.Past = append(o.Past, Point{At: p.At, GPUs: Known(p.Number)})
	}
	none := Unknown("there is no forecast")
	o.Error = BackTest{MAPE: none, MASE: none, Coverage: none, Wide: none}
	o.Exhausts = Exhausted{Earliest: none, Expected: none, Latest: none, Text: "Not enough data."}
	points := s.points(g, manyPoints)
	if len(points) < 2 {
		o.Why = "not enough data: fewer than two values are known"
		return o
	}
	reach := min(points[len(points)-1].At.Sub(points[0].At)/2, farthest)
	ask := forecast.Query{Now: w.Until}
	for h, step := time.Duration(0), ahead(reach); h+step <= reach; {
		h += step
		ask.Horizons = append(ask.Horizons, h)
	}
	made := forecast.MakeEach(points, ask, bandLevel, wideLevel)
	o.band(made[0], made[1])
	o.exhaust(w.Until, reach)
	return o
}

// ahead is the step between forecast values. It is never a whole day, which would always miss the day's peak.
func ahead(reach time.Duration) time.Duration {
	for _, step := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 4 * time.Hour, 5 * time.Hour, 8 * time.Hour, 11 * time.Hour} {
		if reach/step <= mostBands {
			return step
		}
	}
	return 15 * time.Hour
}

// manyPoints is the number of values that a forecast is computed from: one month of hourly values.
const manyPoints = 720

// band fills the bands, up to the first horizon without a forecast. The wide band is computed from the same
// errors. With few errors it can be narrower than the other band; then it is widened to that one.
func (o *Outlook) band(all, wide []forecast.Forecast) {
	for i, f := range all {
		if !f.Enough {
			if len(o.Ahead) == 0 {
				o.Why = "not enough data: " + f.Why
			}
			return
		}
		number := func(v sample.Value) Number {
			if x, ok := v.Get(); ok {
				return Known(x)
			}
			return Unknown("too few tests")
		}
		b := Band{At: f.At.UTC(), Low: number(f.Low), Expected: number(f.Expected), High: number(f.High), Low95: number(wide[i].Low), High95: number(wide[i].High)}
		if b.Low95.Or(0) > b.Low.Or(0) {
			b.Low95 = b.Low
		}
		if b.High95.Or(0) < b.High.Or(0) {
			b.High95 = b.High
		}
		o.Ahead = append(o.Ahead, b)
		o.Method, o.Why = string(f.Method), f.Why
		o.Error = BackTest{MAPE: number(f.Error.MAPE), MASE: number(f.Error.MASE), Coverage: number(f.Error.Coverage), Wide: number(wide[i].Error.Coverage), Tests: f.Error.Tests}
	}
}

// exhaust computes when the band reaches the limit, as a range.
func (o *Outlook) exhaust(now time.Time, reach time.Duration) {
	limit, ok := o.Limit.Get()
	if !ok || len(o.Ahead) == 0 || limit <= 0 {
		return
	}
	last := o.Ahead[len(o.Ahead)-1].At.Sub(now)
	days := func(d time.Duration) float64 { return d.Hours() / 24 }
	never := Unknown(fmt.Sprintf("not within the next %s", Duration(last.Hours())))
	when := func(of func(Band) Number) Number {
		for _, b := range o.Ahead {
			// Slightly below the limit counts too: a band never exceeds the values that it was computed from.
			if v, ok := of(b).Get(); ok && v >= limit*0.999 {
				return Known(days(b.At.Sub(now)))
			}
		}
		return never
	}
	e := Exhausted{
		Earliest: when(func(b Band) Number { return b.High }), Expected: when(func(b Band) Number { return b.Expected }), Latest: when(func(b Band) Number { return b.Low }),
	}
	first, soon := e.Earliest.Get()
	lastDay, sure := e.Latest.Get()
	switch {
	case !soon:
		e.Text = fmt.Sprintf("The limit is not reached within the next %s.", Duration(last.Hours()))
	case sure && lastDay == first:
		e.Text = fmt.Sprintf("The limit is reached within %s.", Duration(24*first))
	case sure:
		e.Text = fmt.Sprintf("The limit is reached in %s to %s.", Duration(24*first), Duration(24*lastDay))
	default:
		e.Text = fmt.Sprintf("The limit is reached in %s at the earliest, perhaps not within the next %s.", Duration(24*first), Duration(last.Hours()))
	}
	if last < reach {
		e.Text += " There is not enough data to look further ahead."
	}
	o.Exhausts = e
}
