package preview

import (
	"cmp"
	"context"
	_ "embed"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/eval"
)

// Label is on every page.
const Label = "preview, not Grafana"

//go:embed page.html
var pages string

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"hue": hue, "on": on, "class": class, "length": shortly, "nothing": eval.Nothing, "label": func() string { return Label },
	"short": func(title string) string { return strings.TrimPrefix(title, "gpuscale / ") },
}).Parse(pages))

// view is a board as the templates show it. The templates escape its names and texts.
type view struct {
	board.Board
	From, To, Error string
	Times           []string
	Panels          []panel
	Height          int // of the picture, in pixels
}

// panel is a panel with its answer, or a row's heading.
type panel struct {
	board.Placed
	Error string
	Items []item // values now, with their names; of a chart its legend
	Table *eval.Grid

	// For charts: the values beside the axis from the bottom up, and the lines on a canvas of 1000 × 100.
	Ticks, Events []item
	Lines         []line
}

// item is a value, or a colour, with a name. From and Part are in percent of the width.
type item struct {
	eval.Cell
	Name       string
	From, Part float64
	Parts      []item // of a series of a timeline, one for each stretch of one value
}

// Left and Top are the first column and row of the grid, from 1 on.
func (p panel) Left() int { return p.X + 1 }
func (p panel) Top() int  { return p.Y + 1 }

// Empty reports whether the panel's queries have no answer.
func (p panel) Empty() bool { return len(p.Items) == 0 && (p.Table == nil || len(p.Table.Rows) == 0) }

// Named reports whether values are shown with names, which is the case if there are several.
func (p panel) Named() bool { return len(p.Items) > 1 }

// Board draws a board at the end of a window, as an SVG that contains HTML. A panel that cannot be evaluated
// shows its error.
func Board(ctx context.Context, src eval.Source, b board.Board, w eval.Window) string {
	return written("picture", look(ctx, src, b, w))
}

// Window returns a window of the given length that ends at a time, in about as many steps as a chart shows.
func Window(to time.Time, length, scrape time.Duration) eval.Window {
	step := max(scrape, (length / 180).Round(time.Second))
	to = to.Truncate(step)
	return eval.Window{From: to.Add(-length.Truncate(step)), To: to, Step: step, Scrape: scrape}
}

func written(name string, data any) string {
	var out strings.Builder
	if err := templates.ExecuteTemplate(&out, name, data); err != nil {
		return template.HTMLEscapeString(err.Error()) // a fault of the template, which tests find
	}
	return out.String()
}

// look evaluates a board for the templates.
func look(ctx context.Context, src eval.Source, b board.Board, w eval.Window) view {
	v := view{Board: b, From: w.From.UTC().Format("2006-01-02 15:04"), To: clock(w.To)}
	for i := range 5 {
		v.Times = append(v.Times, clock(w.From.Add(w.To.Sub(w.From)*time.Duration(i)/4)))
	}
	events, err := eval.Events(ctx, src, b, w)
	if err != nil {
		v.Error = err.Error()
	}
	for _, at := range b.Layout() {
		p := panel{Placed: at}
		if at.Panel != nil {
			if a, err := eval.Ask(ctx, src, b, *at.Panel, w); err != nil {
				p.Error = err.Error()
			} else {
				p.show(a, events, w)
			}
		}
		v.Panels = append(v.Panels, p)
		v.Height = max(v.Height, 70+36*(at.Y+at.H))
	}
	return v
}

func clock(t time.Time) string { return t.UTC().Format("15:04") }

func (p *panel) show(a eval.Answer, events []eval.Event, w eval.Window) {
	if a.Panel.Kind == board.Series {
		p.draw(a, events, w)
		return
	}
	p.Table = a.Table
	most := 0.0
	for _, s := range a.Series {
		most = max(most, s.Last())
	}
	for _, s := range a.Series {
		i := item{Name: s.Name, Cell: eval.Show(a.Panel, s.Name, s.Last())}
		if most > 0 {
			i.Part = percent(s.Last() / most)
		}
		if a.Panel.Kind == board.Timeline {
			i.Parts = stretches(a.Panel, s, w)
		}
		p.Items = append(p.Items, i)
	}
}

// percent converts a share to percent with two decimals; negative shares become 0.
func percent(v float64) float64 { return math.Round(max(0, v)*1e4) / 100 }

// stretches returns the time spans in which a series keeps one value, named by their start.
func stretches(p board.Panel, s eval.Series, w eval.Window) (all []item) {
	share := func(d time.Duration) float64 { return percent(float64(d) / float64(w.To.Sub(w.From))) }
	for from, to := 0, 0; from < len(s.Points); from = to {
		first := s.Points[from]
		for to = from + 1; to < len(s.Points) && s.Points[to].Value == first.Value && s.Points[to].Time.Sub(s.Points[to-1].Time) <= w.Step*3/2; to++ {
		}
		till := min(s.Points[to-1].Time.Add(w.Step).Sub(first.Time), w.To.Sub(first.Time))
		all = append(all, item{Cell: eval.Show(p, s.Name, first.Value), Name: clock(first.Time), From: share(first.Time.Sub(w.From)), Part: share(till)})
	}
	return all
}

// class aligns a column: numbers right, words left, coloured cells in the middle.
func class(g *eval.Grid, c board.Column) string {
	switch {
	case c.Label != "":
		return "label"
	case g.Matrix:
		return "filled"
	}
	return "value"
}

// names maps Grafana's colour names to CSS variables, which the page defines for a light and a dark theme.
var names = map[board.Colour]template.CSS{
	board.Good: "var(--good)", board.Watch: "var(--watch)", board.Warn: "var(--warn)", board.Bad: "var(--bad)", board.Plain: "var(--plain)", board.Ink: "var(--ink)", "": "var(--ink)",
}

func hue(c board.Colour) template.CSS { return cmp.Or(names[c], template.CSS(c)) }

// on returns the colour of text on a background.
func on(background board.Colour) template.CSS {
	if names[background] != "" {
		return "var(--on)"
	}
	v, err := strconv.ParseUint(strings.TrimPrefix(string(background), "#"), 16, 32)
	if r, g, b := float64(v>>16), float64(v>>8&255), float64(v&255); err != nil || 0.299*r+0.587*g+0.114*b > 180 {
		return "#24292e"
	}
	return "#ffffff"
}
