package preview

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// chart is lines over time, on a canvas 1000 wide and 100 high.
type chart struct {
	Ticks  []item // of values, in percent from below
	Events []item
	Lines  []line

	top, bottom float64 // values at the edges
}

// line is a stretch of a series without gaps, or the area under it.
type line struct {
	Points string
	Area   bool
	Width  float64
	Colour board.Colour
}

// layer is a series on the window's steps; lower is its baseline where it is stacked.
type layer struct {
	name         string
	lower, upper []float64 // NaN where there is nothing
}

// chartOf draws lines, or areas on top of one another.
func chartOf(a eval.Answer, hues map[string]board.Colour, events []eval.Event, w eval.Window) chart {
	var c chart
	layers := layersOf(a, w)
	c.scale(layers, a.Panel)
	for _, e := range events {
		c.Events = append(c.Events, item{Cell: eval.Cell{Text: e.Title, Colour: e.Colour}, Part: 10 * percent(float64(e.Time.Sub(w.From))/float64(w.To.Sub(w.From)))})
	}
	for _, l := range slices.Backward(layers) {
		c.add(l, hues[l.name], a.Panel)
	}
	return c
}

func stacked(p board.Panel) bool { return p.Stack || p.Share }

// layersOf puts the series on the window's steps, on top of one another where they are stacked.
func layersOf(a eval.Answer, w eval.Window) []layer {
	n := int(w.To.Sub(w.From)/w.Step) + 1
	base, total := make([]float64, n), make([]float64, n)
	var all []layer
	for _, s := range a.Series {
		l := layer{name: s.Name, lower: make([]float64, n), upper: slices.Repeat([]float64{math.NaN()}, n)}
		for _, p := range s.Points {
			if i := int(p.Time.Sub(w.From).Round(w.Step) / w.Step); i >= 0 && i < n {
				l.upper[i] = p.Value
				total[i] += p.Value
			}
		}
		all = append(all, l)
	}
	if !stacked(a.Panel) {
		return all
	}
	for _, l := range all {
		for i, v := range l.upper {
			if a.Panel.Share && total[i] > 0 {
				v /= total[i]
			}
			l.lower[i], l.upper[i] = base[i], base[i]+v
			if !math.IsNaN(v) {
				base[i] += v
			}
		}
	}
	return all
}

// scale chooses the range of values: from 0, or lower, to a round number.
func (c *chart) scale(layers []layer, p board.Panel) {
	most, unit := 0.0, p.Unit
	for _, l := range layers {
		for _, v := range l.upper {
			if !math.IsNaN(v) {
				most, c.bottom = max(most, v), min(c.bottom, v)
			}
		}
	}
	if p.Max > 0 {
		most = p.Max
	}
	if p.Share {
		most, unit = 1, board.Percent
	}
	if most <= c.bottom {
		most = c.bottom + 1
	}
	step := roundUp((most - c.bottom) / 4)
	c.top, c.bottom = math.Ceil(most/step-1e-9)*step, math.Floor(c.bottom/step)*step
	for v := c.bottom; v <= c.top+step/2; v += step {
		c.Ticks = append(c.Ticks, item{Cell: eval.Cell{Text: eval.Format(v, unit)}, Part: percent((v - c.bottom) / (c.top - c.bottom))})
	}
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

// add draws one series, with its gaps.
func (c *chart) add(l layer, hue board.Colour, p board.Panel) {
	width := 1.6
	if slices.ContainsFunc(p.Bands, func(b board.Band) bool { return l.name == b.Low || l.name == b.High }) {
		width = 0.8
	}
	for from := 0; from < len(l.upper); from++ {
		if math.IsNaN(l.upper[from]) {
			continue
		}
		to := from
		for to+1 < len(l.upper) && !math.IsNaN(l.upper[to+1]) {
			to++
		}
		points := c.edge(l.upper, from, to, p.Steps)
		switch {
		case stacked(p):
			lower := c.edge(l.lower, from, to, p.Steps)
			slices.Reverse(lower)
			points = append(points, lower...)
		case from == to:
			points = append(points, [2]float64{points[0][0] + 3, points[0][1]}) // a dot
		}
		var text strings.Builder
		for _, xy := range points {
			fmt.Fprintf(&text, "%.4g,%.4g ", xy[0], xy[1])
		}
		c.Lines = append(c.Lines, line{Points: strings.TrimSpace(text.String()), Area: stacked(p), Width: width, Colour: hue})
		from = to
	}
}

func (c *chart) edge(values []float64, from, to int, steps bool) [][2]float64 {
	var out [][2]float64
	for i := from; i <= to; i++ {
		x, y := 1000*float64(i)/float64(len(values)-1), 100*(1-(values[i]-c.bottom)/(c.top-c.bottom))
		if steps && len(out) > 0 {
			out = append(out, [2]float64{x, out[len(out)-1][1]})
		}
		// Points on a level line are left out.
		if n := len(out); n > 1 && out[n-1][1] == y && out[n-2][1] == y {
			out = out[:n-1]
		}
		out = append(out, [2]float64{x, y})
	}
	return out
}

// Window is of a length that ends at a time, in about as many steps as a chart shows.
func Window(to time.Time, length, scrape time.Duration) eval.Window {
	step := max(scrape, (length / 180).Round(time.Second))
	to = to.Truncate(step)
	return eval.Window{From: to.Add(-length.Truncate(step)), To: to, Step: step, Scrape: scrape}
}
