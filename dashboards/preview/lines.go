package preview

import (
	"fmt"
	"html"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// chart is the frame of a chart over time.
type chart struct {
	canvas *canvas
	box    box
	window eval.Window
	top    float64 // value at the upper edge
	bottom float64
}

func (ch chart) x(t time.Time) float64 {
	return ch.box.x + ch.box.w*float64(t.Sub(ch.window.From))/float64(ch.window.To.Sub(ch.window.From))
}

func (ch chart) y(v float64) float64 {
	return ch.box.y + ch.box.h*(1-(v-ch.bottom)/(ch.top-ch.bottom))
}

func stacked(p board.Panel) bool { return p.Stack || p.Share }

// lines draws a chart of lines, or of areas on top of one another.
func lines(c *canvas, a eval.Answer, w eval.Window, events []eval.Event, b box) {
	p := a.Panel
	hues := huesOf(a)
	legend := legendRows(a, b.w)
	plot := b.shrink(52, 4, 4, 20+float64(len(legend))*15)
	layers := layersOf(a, w)
	ch := chart{canvas: c, box: plot, window: w}
	ch.scale(layers, p)
	ch.axes(p)
	for _, e := range events {
		x := ch.x(e.Time)
		c.addf(`<g><title>%s</title>`, html.EscapeString(e.Title))
		c.line(x, plot.y, x, plot.y+plot.h, colour(e.Colour), `stroke-dasharray="3 3" stroke-opacity="0.7"`)
		c.addf("</g>")
	}
	for i := len(layers) - 1; i >= 0; i-- {
		ch.layer(layers[i], hues[layers[i].name], p)
	}
	drawLegend(c, legend, hues, b)
}

// layer is a series on the grid of times; lower is its baseline.
type layer struct {
	name         string
	times        []time.Time
	lower, upper []float64 // NaN where there is nothing
}

// layersOf puts the series on the window's grid, on top of one another where they
// are stacked.
func layersOf(a eval.Answer, w eval.Window) []layer {
	n := int(w.To.Sub(w.From)/w.Step) + 1
	base, total := make([]float64, n), make([]float64, n)
	var all []layer
	for _, s := range a.Series {
		l := layer{name: s.Name, times: make([]time.Time, n), lower: make([]float64, n), upper: make([]float64, n)}
		for i := range n {
			l.times[i], l.upper[i] = w.From.Add(time.Duration(i)*w.Step), math.NaN()
		}
		for _, p := range s.Points {
			if i := int(math.Round(float64(p.Time.Sub(w.From)) / float64(w.Step))); i >= 0 && i < n {
				l.upper[i] = p.Value
				total[i] += p.Value
			}
		}
		all = append(all, l)
	}
	if !stacked(a.Panel) {
		return all
	}
	for k := range all {
		for i := range n {
			v := all[k].upper[i]
			if a.Panel.Share && total[i] > 0 {
				v /= total[i]
			}
			all[k].lower[i] = base[i]
			if !math.IsNaN(v) {
				base[i] += v
			}
			all[k].upper[i] = all[k].lower[i] + v
		}
	}
	return all
}

// scale chooses the range of values: from 0, or lower, to a round number.
func (ch *chart) scale(layers []layer, p board.Panel) {
	most := 0.0
	for _, l := range layers {
		for _, v := range l.upper {
			if !math.IsNaN(v) {
				most, ch.bottom = math.Max(most, v), math.Min(ch.bottom, v)
			}
		}
	}
	if p.Max > 0 {
		most = p.Max
	}
	if p.Share {
		most = 1
	}
	if most <= ch.bottom {
		most = ch.bottom + 1
	}
	step := roundUp((most - ch.bottom) / 4)
	ch.top = math.Ceil(most/step-1e-9) * step
	ch.bottom = math.Floor(ch.bottom/step) * step
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

func (ch chart) axes(p board.Panel) {
	unit := p.Unit
	if p.Share {
		unit = board.Percent
	}
	step := roundUp((ch.top - ch.bottom) / 4)
	for v := ch.bottom; v <= ch.top+step/2; v += step {
		ch.canvas.line(ch.box.x, ch.y(v), ch.box.x+ch.box.w, ch.y(v), grid, "")
		ch.canvas.text(ch.box.x-6, ch.y(v)+3.5, 10.5, end, faint, eval.Format(v, unit))
	}
	timeAxis(ch.canvas, ch.window, ch.box)
}

// timeAxis writes a few times under a chart.
func timeAxis(c *canvas, w eval.Window, b box) {
	n := max(2, int(b.w/90))
	span := w.To.Sub(w.From)
	for i := range n + 1 {
		t := w.From.Add(span * time.Duration(i) / time.Duration(n)).Truncate(time.Minute)
		x := b.x + b.w*float64(t.Sub(w.From))/float64(span)
		anchor := middle
		if i == n {
			anchor, x = end, b.x+b.w
		}
		c.text(math.Max(x, b.x), b.y+b.h+14, 10.5, anchor, faint, clock(t))
	}
}

// layer draws one series, with its gaps.
func (ch chart) layer(l layer, hue string, p board.Panel) {
	for from := 0; from < len(l.upper); from++ {
		if math.IsNaN(l.upper[from]) {
			continue
		}
		to := from
		for to+1 < len(l.upper) && !math.IsNaN(l.upper[to+1]) {
			to++
		}
		ch.stretch(l, from, to, hue, p)
		from = to
	}
}

func (ch chart) stretch(l layer, from, to int, hue string, p board.Panel) {
	upper, lower := ch.edge(l, l.upper, from, to, p.Steps), ch.edge(l, l.lower, from, to, p.Steps)
	if !stacked(p) {
		width := "1.6"
		if slices.ContainsFunc(p.Bands, func(b board.Band) bool { return l.name == b.Low || l.name == b.High }) {
			width = "0.8"
		}
		if from == to {
			upper = append(upper, [2]float64{upper[0][0] + 3, upper[0][1]})
		}
		ch.canvas.addf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"/>`, points(upper), hue, width)
		return
	}
	for i := len(lower) - 1; i >= 0; i-- {
		upper = append(upper, lower[i])
	}
	ch.canvas.addf(`<polygon points="%s" fill="%s" fill-opacity="0.75"/>`, points(upper), hue)
}

func (ch chart) edge(l layer, values []float64, from, to int, steps bool) [][2]float64 {
	var out [][2]float64
	for i := from; i <= to; i++ {
		x, y := ch.x(l.times[i]), ch.y(values[i])
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

// points writes a path's points.
func points(xy [][2]float64) string {
	var b strings.Builder
	for i, p := range xy {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(px(p[0]) + "," + px(p[1]))
	}
	return b.String()
}

// huesOf are the series' colours: the board's, and the palette's for the rest.
func huesOf(a eval.Answer) map[string]string {
	var free []string
	out := map[string]string{}
	for _, name := range uniq(a) {
		if hue := eval.LookOf(a.Panel, name).Hue; hue != "" {
			out[name] = colour(hue)
		} else {
			free = append(free, name)
		}
	}
	maps.Copy(out, colours(free))
	return out
}

// legendRows breaks the names into at most two rows.
func legendRows(a eval.Answer, width float64) [][]string {
	rows, x := [][]string{nil}, 0.0
	all := uniq(a)
	for i, name := range all {
		w := math.Min(widthOf(name, 11), width-40) + 26
		if x+w > width {
			if len(rows) == 2 {
				rows[1] = append(rows[1], fmt.Sprintf("+%d", len(all)-i))
				break
			}
			rows, x = append(rows, nil), 0
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], name)
		x += w
	}
	return rows
}

func drawLegend(c *canvas, rows [][]string, hues map[string]string, b box) {
	for i, row := range rows {
		x, y := b.x, b.y+b.h-float64(len(rows)-1-i)*15-1
		for _, name := range row {
			if hue, ok := hues[name]; ok {
				c.rect(box{x, y - 6, 11, 4}, hue, `rx="2"`)
			}
			text := fit(name, 11, b.w-40)
			c.text(x+15, y, 11, start, faint, text)
			x += widthOf(text, 11) + 26
		}
	}
}
