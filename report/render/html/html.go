package html

import (
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/render"
)

//go:embed style.css
var style string

//go:embed page.gohtml
var page string

// Limits of the page that keep it below 500 kB; the JSON form has everything.
const (
	mostRows    = 60
	mostGPUs    = 96
	mostActions = 25
)

// Write writes the page.
func Write(w io.Writer, r model.Report) error {
	if err := parsed.Execute(w, newView(r)); err != nil {
		return fmt.Errorf("writing HTML: %w", err)
	}
	return nil
}

var parsed = template.Must(template.New("page").Funcs(template.FuncMap{
	"time": render.Time, "share": render.Share, "hours": render.Hours, "money": render.Money, "unit": render.Unit, "visible": render.Visible, "hoursOf": render.HoursOf, "code": render.Code,
	"known": func(n model.Number) bool { _, ok := n.Get(); return ok },
	"some":  func(n model.Number) bool { return n.Or(0) > 0 },
	"why":   model.Number.Why,
	"inc":   func(i int) int { return i + 1 },
}).Parse(page))

// view is what the page's template reads.
type view struct {
	R                     model.Report
	Title, Length         string
	Hash                  string
	Style                 template.CSS
	None                  string
	Marks                 []string
	Sections              []section
	Bars                  []bar
	Stack                 template.HTML
	GPUs                  []repartitionGPU
	MoreGPUs, MoreActions int
	Outlooks              []drawn
	Actions               []model.Action
}

type repartitionGPU struct {
	model.MIGGPU
	Picture template.HTML
}

type drawn struct {
	model.Outlook
	Picture     template.HTML
	First, Last time.Time
}

type section struct {
	render.Section
	Tables []table
}

type table struct {
	render.Table
	Body  [][]cell
	Notes []string
	More  int
}

type cell struct {
	Text, Why, Note   string
	Head, Right, Code bool
	Picture           template.HTML
}

func newView(r model.Report) view {
	css := strings.TrimSpace(style)
	sum := sha256.Sum256([]byte(css))
	v := view{
		R: r, Title: render.Title(r), Length: model.Duration(r.Window.Hours), Style: template.CSS(css), None: render.None,
		Hash:  "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		Marks: []string{"all", "busy", "idle", "free", "wait"}, Bars: waterfall(r), Stack: stack(r),
	}
	for _, s := range render.Sections(r) {
		out := section{Section: s}
		for _, t := range s.Tables {
			out.Tables = append(out.Tables, newTable(t, r))
		}
		v.Sections = append(v.Sections, out)
	}
	for i, c := range r.MIG.GPUs {
		if i < mostGPUs {
			v.GPUs = append(v.GPUs, repartitionGPU{c, device(c)})
		}
	}
	v.MoreGPUs = r.MIG.GPUsTotal - len(v.GPUs)
	for _, o := range r.Forecast.Outlooks {
		d := drawn{Outlook: o, Picture: outlook(o)}
		if n := len(o.Past); n > 0 {
			d.First, d.Last = o.Past[0].At, o.Past[n-1].At
		}
		if n := len(o.Ahead); n > 0 {
			d.Last = o.Ahead[n-1].At
		}
		v.Outlooks = append(v.Outlooks, d)
	}
	v.Actions = r.Actions[:min(len(r.Actions), mostActions)]
	v.MoreActions = len(r.Actions) - len(v.Actions)
	return v
}

func newTable(t render.Table, r model.Report) table {
	out := table{Table: t}
	rows := t.Rows
	// All queries are listed: the method is the page's last section.
	if t.Name != "queries" && len(rows) > mostRows {
		out.More = len(rows) - mostRows
		rows = rows[:mostRows]
	}
	for k, row := range rows {
		var cells []cell
		for i, c := range row {
			one := cell{Text: c.Text, Why: c.Why, Head: i == 0, Right: t.Columns[i].Right, Code: t.Columns[i].Name == "PromQL"}
			if c.Why != "" {
				one.Note = out.note(c.Why)
			}
			if t.Name == "use" && i == 0 {
				one.Picture = shares(r.Use.Rows[k])
			}
			cells = append(cells, one)
		}
		out.Body = append(out.Body, cells)
	}
	return out
}

// note numbers the reasons of a table.
func (t *table) note(why string) string {
	for i, n := range t.Notes {
		if n == why {
			return fmt.Sprint(i + 1)
		}
	}
	t.Notes = append(t.Notes, why)
	return fmt.Sprint(len(t.Notes))
}
