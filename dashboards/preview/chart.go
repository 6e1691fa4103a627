package preview

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// line is a part of a series without gaps, or the area below it.
type line struct {
	Points string
	Area   bool
	Width  float64
	Colour board.Colour
}

// layer is a series on the window's steps, NaN where it has no value. In a stacked chart, lower is the top of
// the series below.
type layer struct{ lower, upper []float64 }

// axis is the range of values.
type axis struct{ bottom, top float64 }

func (x axis) share(v float64) float64 { return (v - x.bottom) / (x.top - x.bottom) }

// draw draws lines or stacked areas, and their legend.
func (p *panel) draw(a eval.Answer, events []eval.Event, w eval.Window) {
	if len(a.Series) == 0 {
		return
	}
	all, hues := layers(a, w), huesOf(a)
	x := p.scale(all)
	for _, e := range events {
		p.Events = append(p.Events, item{Cell: eval.Cell{Text: e.Title, Colour: e.Colour}, Part: 10 * percent(float64(e.Time.Sub(w.From))/float64(w.To.Sub(w.From)))})
	}
	for i, l := range slices.Backward(all) {
		p.line(l, x, a.Series[i].Name, hues)
	}
	for _, s := range a.Series {
		if !slices.ContainsFunc(p.Items, func(i item) bool { return i.Name == s.Name }) {
			p.Items = append(p.Items, item{Name: s.Name, Cell: eval.Cell{Colour: hues[s.Name]}})
		}
	}
}

func layers(a eval.Answer, w eval.Window) []layer {
	n := int(w.To.Sub(w.From)/w.Step) + 1
	base, all := make([]float64, n), make([]layer, len(a.Series))
	for k, s := range a.Series {
		all[k] = layer{make([]float64, n), slices.Repeat([]float64{math.NaN()}, n)}
		for _, p := range s.Points {
			if i := int(p.Time.Sub(w.From).Round(w.Step) / w.Step); i >= 0 && i < n {
				all[k].upper[i] = p.Value
			}
		}
	}
	if !a.Panel.Stack {
		return all
	}
	for _, l := range all {
		for i, v := range l.upper {
			l.lower[i], l.upper[i] = base[i], base[i]+v
			if !math.IsNaN(v) {
				base[i] += v
			}
		}
	}
	return all
}

// scale chooses the range of values: from 0, or lower, to a round number.
func (p *panel) scale(all []layer) (x axis) {
	most := 0.0
	for _, l := range all {
		for _, v := range l.upper {
			if !math.IsNaN(v) {
				most, x.bottom = max(most, v), min(x.bottom, v)
			}
		}
	}
	if p.Panel.Max > 0 {
		most = p.Panel.Max
	}
	if most <= x.bottom {
		most = x.bottom + 1
	}
	step := roundUp((most - x.bottom) / 4)
	x.top, x.bottom = math.Ceil(most/step-1e-9)*step, math.Floor(x.bottom/step)*step
	for v := x.bottom; v <= x.top+step/2; v += step {
		p.Ticks = append(p.Ticks, item{Cell: eval.Cell{Text: eval.Format(v, p.Panel.Unit)}, Part: percent(x.share(v))})
	}
	return x
}

// roundUp returns the next of 1, 2, 5 and their powers of ten.
func roundUp(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*p*1.0001 {
			return m * p
		}
	}
	return 10 * p
}

// line draws one series, with its gaps.
func (p *panel) line(l layer, x axis, name string, hues map[string]board.Colour) {
	drawn := line{Area: p.Panel.Stack, Width: 1.6, Colour: hues[name]}
	if slices.ContainsFunc(p.Panel.Bands, func(b board.Band) bool { return name == b.Low || name == b.High }) {
		drawn.Width = 0.8
	}
	for from, to := 0, 0; from < len(l.upper); from = to + 1 {
		if to = from; math.IsNaN(l.upper[from]) {
			continue
		}
		for to+1 < len(l.upper) && !math.IsNaN(l.upper[to+1]) {
			to++
		}
		points := p.edge(l.upper, x, from, to)
		if drawn.Area {
			lower := p.edge(l.lower, x, from, to)
			slices.Reverse(lower)
			points = append(points, lower...)
		}
		var words []string
		for _, xy := range points {
			words = append(words, fmt.Sprintf("%.4g,%.4g", xy[0], xy[1]))
		}
		drawn.Points = strings.Join(words, " ")
		p.Lines = append(p.Lines, drawn)
	}
}

func (p *panel) edge(values []float64, x axis, from, to int) (out [][2]float64) {
	for i := from; i <= to; i++ {
		across, y := 1000*float64(i)/float64(len(values)-1), 100*(1-x.share(values[i]))
		if p.Panel.Steps && len(out) > 0 {
			out = append(out, [2]float64{across, out[len(out)-1][1]})
		}
		// A point on a horizontal line is left out.
		if n := len(out); n > 1 && out[n-1][1] == y && out[n-2][1] == y {
			out = out[:n-1]
		}
		out = append(out, [2]float64{across, y})
	}
	if from == to {
		out = append(out, [2]float64{out[0][0] - 3, out[0][1]}) // a dot
	}
	return out
}

// palette colours series whose colour has no meaning.
var palette = []board.Colour{"#3274d9", "#e8690b", "#8f3bb8", "#33a2a8", "#c79100", "#3f8f35", "#c15c8f", "#5f6f94", "#a67c52", "#7c9a2c"}

// huesOf returns the colour of each series: the board's colour if it has one, else a palette colour chosen by
// name. If that is taken, the next free one.
func huesOf(a eval.Answer) map[string]board.Colour {
	out, taken := map[string]board.Colour{}, map[int]bool{}
	for _, s := range a.Series {
		if out[s.Name] != "" {
			continue
		}
		if out[s.Name] = eval.Hue(a.Panel, s.Name); out[s.Name] == "" {
			h := fnv.New32a()
			_, _ = h.Write([]byte(s.Name))
			i := int(h.Sum32() % uint32(len(palette)))
			for n := 0; taken[i] && n < len(palette); n++ {
				i = (i + 1) % len(palette)
			}
			taken[i], out[s.Name] = true, palette[i]
		}
	}
	return out
}
