package preview

import (
	"math"

	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// stats draws the newest values, large, beside one another.
func stats(c *canvas, a eval.Answer, b box) {
	n := float64(len(a.Series))
	w := b.w / n
	for i, s := range a.Series {
		cell := eval.FieldOf(a.Panel, s.Name).Show(s.Last())
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
		cell := eval.FieldOf(a.Panel, s.Name).Show(s.Last())
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
