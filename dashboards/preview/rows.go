package preview

import (
	"fmt"
	"html"
	"math"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// timeline draws each series as a bar that changes colour with its value.
func timeline(c *canvas, a eval.Answer, w eval.Window, b box) {
	longest := 0.0
	for _, s := range a.Series {
		longest = math.Max(longest, widthOf(s.Name, 11))
	}
	label := math.Min(longest+10, b.w*0.3)
	plot := b.shrink(label, 0, 0, 20)
	n := len(a.Series)
	shown := min(n, int(plot.h/11))
	if shown < n {
		c.text(b.x, plot.y+plot.h+14, 10.5, start, faint, fmt.Sprintf("+%d more", n-shown))
	}
	row := math.Min(plot.h/float64(shown), 28)
	for i, s := range a.Series[:shown] {
		bar := box{plot.x, plot.y + float64(i)*row + row*0.08, plot.w, row * 0.84}
		c.text(b.x, bar.y+bar.h/2+3.5, math.Min(11, row*0.9), start, ink, fit(s.Name, 11, label-4))
		stretches(c, a, s, w, bar)
	}
	timeAxis(c, w, box{plot.x, plot.y, plot.w, row * float64(shown)})
}

// stretches draws the times over which a value stays the same.
func stretches(c *canvas, a eval.Answer, s eval.Series, w eval.Window, bar box) {
	look := eval.LookOf(a.Panel, s.Name)
	span := float64(w.To.Sub(w.From))
	for i := 0; i < len(s.Points); {
		j := i
		for j+1 < len(s.Points) && s.Points[j+1].Value == s.Points[i].Value && s.Points[j+1].Time.Sub(s.Points[j].Time) <= w.Step*3/2 {
			j++
		}
		till := s.Points[j].Time.Add(w.Step)
		if till.After(w.To) {
			till = w.To
		}
		cell := look.Show(s.Points[i].Value)
		part := box{bar.x + bar.w*float64(s.Points[i].Time.Sub(w.From))/span, bar.y, bar.w * float64(till.Sub(s.Points[i].Time)) / span, bar.h}
		hue := colour(cell.Colour)
		c.addf(`<g><title>%s</title>`, html.EscapeString(s.Name+": "+cell.Text+" from "+clock(s.Points[i].Time)))
		c.rect(part, hue, `rx="1"`)
		if size := math.Min(11, bar.h*0.9); widthOf(cell.Text, size)+6 < part.w {
			c.text(part.x+part.w/2, part.y+part.h/2+size*0.35, size, middle, on(hue), cell.Text)
		}
		c.addf("</g>")
		i = j + 1
	}
}

const rowHeight = 23

// table draws a table's head and as many rows as fit.
func table(c *canvas, g eval.Grid, b box) {
	widths := columnWidths(g, b.w)
	x := b.x
	for i, col := range g.Columns {
		c.bold(at(x, widths[i], col), b.y+13, 11, anchorOf(col), faint, fit(col.Title, 11, widths[i]-6))
		x += widths[i]
	}
	c.line(b.x, b.y+20, b.x+b.w, b.y+20, grid, "")
	space := int((b.h - 22) / rowHeight)
	for n, row := range g.Rows {
		if n == space-1 && len(g.Rows) > space {
			c.text(b.x, b.y+22+float64(n)*rowHeight+15, 11, start, faint, fmt.Sprintf("+%d more", len(g.Rows)-n))
			break
		}
		drawRow(c, g, row, widths, box{b.x, b.y + 22 + float64(n)*rowHeight, b.w, rowHeight})
	}
}

func drawRow(c *canvas, g eval.Grid, row []eval.Cell, widths []float64, b box) {
	x := b.x
	for i, cell := range row {
		col := g.Columns[i]
		fill, text := ink, cell.Text
		switch {
		case col.Label:
		case col.Filled && cell.Known:
			fill = on(colour(cell.Colour))
			c.rect(box{x + 1, b.y + 1, widths[i] - 2, b.h - 2}, colour(cell.Colour), `rx="2"`)
		case col.Filled:
			text = ""
			fill = colour(cell.Colour)
		case col.Coloured || !cell.Known:
			fill = colour(cell.Colour)
		}
		c.text(at(x, widths[i], col), b.y+15.5, 11.5, anchorOf(col), fill, fit(text, 11.5, widths[i]-6))
		x += widths[i]
	}
	c.line(b.x, b.y+b.h, b.x+b.w, b.y+b.h, grid, `stroke-opacity="0.6"`)
}

// anchorOf aligns figures right, words left, and coloured cells in the middle.
func anchorOf(col eval.Column) string {
	switch {
	case col.Label:
		return start
	case col.Filled:
		return middle
	}
	return end
}

func at(x, width float64, col eval.Column) float64 {
	switch anchorOf(col) {
	case end:
		return x + width - 8
	case middle:
		return x + width/2
	}
	return x + 2
}

// columnWidths shares the width out by the longest text of each column.
func columnWidths(g eval.Grid, width float64) []float64 {
	want, sum := make([]float64, len(g.Columns)), 0.0
	for i, col := range g.Columns {
		want[i] = widthOf(col.Title, 11) + 18
		for _, row := range g.Rows {
			want[i] = math.Max(want[i], widthOf(row[i].Text, 11.5)+18)
		}
		want[i] = math.Min(want[i], 320)
		sum += want[i]
	}
	for i := range want {
		want[i] *= width / sum
	}
	return want
}

// Window is of a length that ends at a time, in about as many steps as a chart shows.
func Window(to time.Time, length, scrape time.Duration) eval.Window {
	step := max(scrape, (length / 180).Round(time.Second))
	to = to.Truncate(step)
	return eval.Window{From: to.Add(-length.Truncate(step)), To: to, Step: step, Scrape: scrape}
}

// stats draws the newest values, large, beside one another.
func stats(c *canvas, a eval.Answer, b box) {
	n := float64(len(a.Series))
	w := b.w / n
	for i, s := range a.Series {
		cell := eval.LookOf(a.Panel, s.Name).Show(s.Last())
		x := b.x + (float64(i)+0.5)*w
		size := math.Min(math.Min(b.h*0.46, 34), (w-8)/(letter*1.1*math.Max(1, float64(len([]rune(cell.Text))))))
		y := b.y + b.h/2 + size*0.36
		if n > 1 {
			y -= 9
			c.text(x, y+20, 11, middle, faint, fit(s.Name, 11, w-4))
		}
		c.bold(x, y, size, middle, colour(cell.Colour), cell.Text)
	}
}

// bars draws the newest values as bars under one another.
func bars(c *canvas, a eval.Answer, b box) {
	most, longest := 0.0, 0.0
	for _, s := range a.Series {
		most = math.Max(most, s.Last())
		longest = math.Max(longest, widthOf(s.Name, 11.5))
	}
	label := math.Min(longest+10, b.w*0.4)
	row := math.Min(b.h/float64(len(a.Series)), 46)
	for i, s := range a.Series {
		cell := eval.LookOf(a.Panel, s.Name).Show(s.Last())
		y := b.y + float64(i)*row
		c.text(b.x, y+row/2+4, 11.5, start, ink, fit(s.Name, 11.5, label))
		bar := box{b.x + label, y + row*0.15, b.w - label - 76, row * 0.7}
		c.rect(bar, ground, `rx="2"`)
		if most > 0 {
			bar.w *= math.Max(0, s.Last()) / most
		}
		c.rect(bar, colour(cell.Colour), `rx="2"`)
		c.bold(b.x+b.w, y+row/2+4, 12.5, end, colour(cell.Colour), cell.Text)
	}
}
