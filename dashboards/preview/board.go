package preview

import (
	"cmp"
	"context"
	_ "embed"
	"hash/fnv"
	"html/template"
	"math"
	"slices"
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
	"hex": hex, "on": on, "class": class, "length": shortly, "nothing": eval.Nothing, "label": func() string { return Label },
	"short": func(title string) string { return strings.TrimPrefix(title, "gpuscale / ") },
}).Parse(pages))

// view is a board as the templates show it. Names and texts in it are escaped by them.
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
	Error  string
	Items  []item // values now, with their names; of a chart its legend
	Tracks []track
	Table  *eval.Grid
	Chart  chart
}

// item is a value, or a colour, with a name. From and Part are in percent of the width.
type item struct {
	eval.Cell
	Name       string
	From, Part float64
}

// track is a series of a timeline: a part for each stretch of one value.
type track struct {
	Name  string
	Parts []item
}

// Left and Top are the first column and row of the grid, from 1 on.
func (p panel) Left() int { return p.X + 1 }
func (p panel) Top() int  { return p.Y + 1 }

// Empty reports whether the panel's queries have no answer.
func (p panel) Empty() bool { return len(p.Items) == 0 && (p.Table == nil || len(p.Table.Rows) == 0) }

// Named reports whether values are shown with their names: there are several.
func (p panel) Named() bool { return len(p.Items) > 1 }

// Board draws a board at the end of a window, as an SVG that has HTML in it. A panel that
// cannot be evaluated shows the error.
func Board(ctx context.Context, src eval.Source, b board.Board, w eval.Window) string {
	return written("picture", look(ctx, src, b, w))
}

func written(name string, data any) string {
	var out strings.Builder
	if err := templates.ExecuteTemplate(&out, name, data); err != nil {
		return template.HTMLEscapeString(err.Error()) // a fault of the template, which tests find
	}
	return out.String()
}

// look evaluates a board.
func look(ctx context.Context, src eval.Source, b board.Board, w eval.Window) view {
	v := view{Board: b, From: w.From.UTC().Format("2006-01-02 15:04"), To: clock(w.To)}
	for i := range 5 {
		v.Times = append(v.Times, clock(w.From.Add(w.To.Sub(w.From)*time.Duration(i)/4)))
	}
	vars := eval.All(b)
	events, err := eval.Events(ctx, src, b, vars, w)
	if err != nil {
		v.Error = err.Error()
	}
	for _, at := range b.Layout() {
		p := panel{Placed: at}
		if at.Panel != nil {
			a, err := eval.Ask(ctx, src, *at.Panel, vars, w)
			if err != nil {
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
	p.Table = a.Table
	if a.Panel.Kind == board.Series && len(a.Series) > 0 {
		hues := huesOf(a)
		p.Chart = chartOf(a, hues, events, w)
		for _, s := range a.Series {
			if !slices.ContainsFunc(p.Items, func(i item) bool { return i.Name == s.Name }) {
				p.Items = append(p.Items, item{Name: s.Name, Cell: eval.Cell{Colour: hues[s.Name]}})
			}
		}
		return
	}
	most := 0.0
	for _, s := range a.Series {
		most = max(most, s.Last())
	}
	for _, s := range a.Series {
		i := item{Name: s.Name, Cell: eval.LookOf(a.Panel, s.Name).Show(s.Last())}
		if most > 0 {
			i.Part = percent(s.Last() / most)
		}
		p.Items = append(p.Items, i)
		if a.Panel.Kind == board.Timeline {
			p.Tracks = append(p.Tracks, trackOf(a.Panel, s, w))
		}
	}
}

// percent of a share from 0 on, with two decimals.
func percent(v float64) float64 { return math.Round(max(0, v)*1e4) / 100 }

// trackOf has a part for each time over which the value stays the same, named by its beginning.
func trackOf(p board.Panel, s eval.Series, w eval.Window) track {
	t := track{Name: s.Name}
	share := func(d time.Duration) float64 { return percent(float64(d) / float64(w.To.Sub(w.From))) }
	for i := 0; i < len(s.Points); {
		j := i
		for j+1 < len(s.Points) && s.Points[j+1].Value == s.Points[i].Value && s.Points[j+1].Time.Sub(s.Points[j].Time) <= w.Step*3/2 {
			j++
		}
		till := min(s.Points[j].Time.Add(w.Step).Sub(s.Points[i].Time), w.To.Sub(s.Points[i].Time))
		t.Parts = append(t.Parts, item{Cell: eval.LookOf(p, s.Name).Show(s.Points[i].Value), Name: clock(s.Points[i].Time),
			From: share(s.Points[i].Time.Sub(w.From)), Part: share(till)})
		i = j + 1
	}
	return t
}

// class aligns a column: figures right, words left, coloured cells in the middle.
func class(c eval.Column) string {
	switch {
	case c.Label:
		return "label"
	case c.Filled:
		return "filled"
	}
	return "value"
}

// names are Grafana's colours by name, as its light theme has them or near it.
var names = map[board.Colour]string{
	board.Good: "#3f8f35", board.Watch: "#c79100", board.Warn: "#e8690b", board.Bad: "#d3263c", board.Plain: "#3274d9", board.Ink: "#24292e", "": "#24292e",
}

func hex(c board.Colour) string { return cmp.Or(names[c], string(c)) }

// on is the colour of a text on a background.
func on(background board.Colour) string {
	v, err := strconv.ParseUint(strings.TrimPrefix(hex(background), "#"), 16, 32)
	if r, g, b := float64(v>>16), float64(v>>8&255), float64(v&255); err != nil || 0.299*r+0.587*g+0.114*b > 150 {
		return "#24292e"
	}
	return "#ffffff"
}

// palette is for series whose colour has no meaning.
var palette = []board.Colour{"#3274d9", "#e8690b", "#8f3bb8", "#33a2a8", "#c79100", "#3f8f35", "#c15c8f", "#5f6f94", "#a67c52", "#7c9a2c"}

// huesOf are the series' colours: the board's, or one of the palette by the name, or
// another where that is taken.
func huesOf(a eval.Answer) map[string]board.Colour {
	out, taken := map[string]board.Colour{}, map[int]bool{}
	for _, s := range a.Series {
		if out[s.Name] != "" {
			continue
		}
		if out[s.Name] = eval.LookOf(a.Panel, s.Name).Hue; out[s.Name] == "" {
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
