package preview

import (
	"context"
	"fmt"
	"html"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// Sizes of the page, in pixels.
const (
	column = 60
	unit   = 36
	gap    = 8
	margin = 12
	header = 58
)

// Label is on every page.
const Label = "preview, not Grafana"

// Board draws a board at the end of a window. A panel that cannot be evaluated shows the
// error.
func Board(ctx context.Context, src eval.Source, b board.Board, w eval.Window) string {
	vars := eval.All(b)
	var c canvas
	events, err := eval.Events(ctx, src, b, vars, w)
	if err != nil {
		c.text(margin+300, 26, 11.5, start, colour(board.Bad), fit(err.Error(), 11.5, 800))
	}
	bottom := 0.0
	for _, p := range b.Layout() {
		at := box{x: margin + float64(p.X)*column, y: header + float64(p.Y)*unit, w: float64(p.W)*column - gap, h: float64(p.H)*unit - gap}
		if p.Panel == nil {
			c.bold(at.x, at.y+unit/2+6, 15, start, ink, p.Row)
			continue
		}
		bottom = max(bottom, at.y+at.h)
		one(ctx, &c, src, *p.Panel, vars, w, events, at)
	}
	return page(b, w, c.b.String(), bottom+margin)
}

// one draws a panel: frame, title, and what its kind draws.
func one(ctx context.Context, c *canvas, src eval.Source, p board.Panel, vars eval.Vars, w eval.Window, events []eval.Event, b box) {
	c.addf(`<g><title>%s</title>`, html.EscapeString(p.Title+"\n\n"+p.Description()))
	defer c.addf("</g>\n")
	c.rect(b, paper, `rx="3" stroke="#dfe2e5"`)
	c.bold(b.x+10, b.y+20, 12.5, start, ink, fit(p.Title, 12.5, b.w-20))
	inner := b.shrink(10, 30, 10, 8)
	a, err := eval.Ask(ctx, src, p, vars, w)
	switch {
	case err != nil:
		c.text(inner.x, inner.y+14, 11, start, colour(board.Bad), fit(err.Error(), 11, inner.w))
		return
	case len(a.Series) == 0 && (a.Table == nil || len(a.Table.Rows) == 0):
		c.text(inner.x+inner.w/2, inner.y+inner.h/2+4, 20, middle, colour(board.Muted), board.NA)
		return
	}
	switch p.Kind {
	case board.Stat:
		stats(c, a, inner)
	case board.Bars:
		bars(c, a, inner)
	case board.Series:
		lines(c, a, w, events, inner)
	case board.Timeline:
		timeline(c, a, w, inner)
	case board.Table:
		table(c, *a.Table, inner)
	}
}

func page(b board.Board, w eval.Window, panels string, height float64) string {
	var c canvas
	width := float64(2*margin + 24*column - gap)
	c.addf(`<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" viewBox="0 0 %s %s" font-family="Inter, DejaVu Sans, Helvetica, Arial, sans-serif">`+"\n",
		px(width), px(height), px(width), px(height))
	c.rect(box{0, 0, width, height}, ground, "")
	c.bold(margin, 26, 18, start, ink, b.Title)
	c.text(margin, 46, 11.5, start, faint, fit(b.About, 11.5, width-330))
	c.text(width-margin, 22, 12, end, faint, Label)
	c.text(width-margin, 42, 12, end, faint, fmt.Sprintf("%s to %s UTC", w.From.UTC().Format("2006-01-02 15:04"), clock(w.To)))
	c.addf("\n%s</svg>\n", panels)
	return c.b.String()
}

func clock(t time.Time) string { return t.UTC().Format("15:04") }

// uniq returns the names of series, each once, in order.
func uniq(a eval.Answer) []string {
	var all []string
	for _, s := range a.Series {
		if !slices.Contains(all, s.Name) {
			all = append(all, s.Name)
		}
	}
	return all
}
