package render

import (
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
)

//go:embed style.css
var style string

//go:embed page.gohtml
var page string

// Limits for pictures and actions; mostRows is the limit for rows.
const (
	mostGPUs    = 96
	mostActions = 25
)

// HTML writes the report as a page that loads no other resources and runs no scripts.
func HTML(w io.Writer, r model.Report) error {
	if err := parsed.Execute(w, newView(r)); err != nil {
		return fmt.Errorf("writing HTML: %w", err)
	}
	return nil
}

var parsed = template.Must(template.New("page").Funcs(template.FuncMap{
	"time": Time, "share": model.Share, "hours": model.Digits, "money": model.Money, "visible": text.Line, "hoursOf": hoursOf, "code": text.Lines,
	"known": func(n model.Number) bool { _, ok := n.Get(); return ok },
	"why":   model.Number.Why,
	"inc":   func(i int) int { return i + 1 }, "device": device, "outlook": outlook, "figure": figure,
	"mark": func(i int) string { return marks[i] },
	"some": func(n model.Number) bool { return n.Or(0) > 0 },
}).Parse(page))

// view is the data of the page's template.
type view struct {
	R                     model.Report
	Title, Length         string
	Hash                  string
	Style                 template.CSS
	First                 []model.Action
	Sections              []Section
	Stack                 template.HTML
	GPUs                  []model.MIGGPU
	MoreGPUs, MoreActions int
	Actions               []model.Action
}

// marks are the CSS classes of the five numbers.
var marks = []string{"all", "busy", "idle", "free", "wait"}

// figure writes one of the five numbers; shares are written as in section 1.
func figure(f model.Figure) string {
	if f.Unit == "share" {
		return model.Share(f.Value)
	}
	return model.Digits(f.Value)
}

func newView(r model.Report) view {
	css := strings.TrimSpace(style)
	sum := sha256.Sum256([]byte(css))
	v := view{
		R: r, Title: fmt.Sprintf("GPU capacity report, %s to %s UTC", Time(r.Window.From), Time(r.Window.Until)), Length: model.Duration(r.Window.Hours), Style: template.CSS(css),
		Hash:  "sha256-" + base64.StdEncoding.EncodeToString(sum[:]),
		First: r.Actions[:min(len(r.Actions), 3)], Sections: Sections(r), Stack: stack(r),
	}
	v.GPUs, v.Actions = r.MIG.GPUs[:min(len(r.MIG.GPUs), mostGPUs)], r.Actions[:min(len(r.Actions), mostActions)]
	v.MoreGPUs, v.MoreActions = r.MIG.GPUsTotal-len(v.GPUs), len(r.Actions)-len(v.Actions)
	return v
}

// Time formats a time in UTC.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") }
