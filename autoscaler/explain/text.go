package explain

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/gpuscale/gpuscale/internal/text"
)

// WriteJSON writes d as one indented document. Equal documents give equal bytes.
func (d Document) WriteJSON(w io.Writer) error { return text.JSON(w, d) }

// maxLines bounds the members, actions and pods in text; JSON has all.
const maxLines = 20

// form is the text of a Document. Columns of a table are separated by tabs, which no other line has.
var form = template.Must(template.New("").Funcs(template.FuncMap{
	"lower": strings.ToLower, "join": strings.Join,
	"seconds": func(v float64) string { return time.Duration(v * float64(time.Second)).Round(time.Second).String() },
	"money":   func(v float64) string { return fmt.Sprintf("%.2f", v) },
	"few":     func(list reflect.Value) any { return list.Slice(0, min(list.Len(), maxLines)).Interface() },
	"more":    func(list reflect.Value) int { return max(list.Len()-maxLines, 0) },
}).Parse(`
{{- define "groups"}}{{range .}}  {{.Count}}	{{.Reason}}	{{.Example}}{{with .Detail}}: {{.}}{{end}}
{{end}}{{end -}}
{{lower .Kind}} {{.Subject}}: {{.Answer.Reason}}
{{with .Answer.Detail}}  {{.}}
{{end}}{{with .Answer.Meaning}}  meaning: {{.}}
{{end}}{{if not .Changes}}{{with .Answer.WhatToDo}}  what to do: {{.}}
{{end}}{{end}}{{with .Pod}}
{{if ne .Name $.Subject}}decided by its member {{.Name}}
{{end}}requests {{.Requests}}, pending for {{seconds .Waits}}, priority {{.Priority}}, rank {{.Rank}} of {{.Waiting}} pending pods
{{if .Tenant}}tenant {{.Tenant}}{{if .Borrows}}, beyond its guarantee{{end}}
{{end}}{{if .Gang}}member of gang {{.Gang}}, which needs {{.GangMin}} running members
{{end}}{{end}}{{with .Pool}}
{{.Size}} nodes{{if not .Fixed}} of {{.Target}} requested, min {{.Min}}, max {{.Max}}{{end}}, {{.Model}}, {{money .CostPerHour}} an hour each, {{if .Fixed}}fixed: does not scale{{else if .Spot}}spot{{else}}on-demand{{end}}
{{with .Nodes}}
nodes
{{template "groups" .}}{{end}}{{with .GPUs}}
GPUs
{{template "groups" .}}{{end}}{{with .WaitingFor}}
actions for: {{join (few .) " "}}{{with more .}} and {{.}} more{{end}}
{{end}}{{end}}{{with .Members}}
members
{{range few .}}  {{.Name}}	{{.Reason}}	{{.Detail}}
{{end}}{{with more .}}  and {{.}} more
{{end}}{{end}}{{with .Options}}
options
  	OPTION	ON	COST	READY IN	WHY
{{range .}}{{if .Chosen}}=>{{else}}  {{end}}	{{.Kind}}	{{or .On "-"}}	{{with .Cost}}{{money .}}{{else}}-{{end}}	{{with .In}}{{seconds .}}{{else}}-{{end}}	{{/* why */ -}}
{{if .Chosen}}{{.Detail}}{{else if .Lost}}{{.Lost}} ({{.Detail}}){{else}}{{.Reason}}: {{.Detail}}{{end}}
{{end}}{{end}}{{with .Actions}}
actions of this reconcile
{{range few .}}  {{.Verb}} {{.On}}: {{.Reason}}: {{.Detail}}
{{end}}{{with more .}}  and {{.}} more
{{end}}{{end}}{{with .Changes}}
any of these changes would serve it (each was verified by planning with it)
{{range .}}  {{.Who}}: {{.What}}
      then {{.Then.Reason}}: {{.Then.Detail}}
{{end}}{{else}}{{with .Tried}}
none of {{.}} changes tried would serve it
{{end}}{{end}}
planned on the snapshot of {{.At.Format "2006-01-02T15:04:05Z07:00"}}
`))

// WriteText writes d as text, without the control characters that names and details may have: a terminal would
// interpret them.
func (d Document) WriteText(w io.Writer) error {
	var table strings.Builder
	b := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	if err := form.Execute(b, d); err != nil {
		return fmt.Errorf("writing an explanation: %w", err)
	}
	_ = b.Flush() // a strings.Builder returns no error
	_, err := io.WriteString(w, text.Lines(table.String()))
	return err
}
