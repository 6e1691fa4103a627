// Package md writes the report as Markdown that GitHub and GitLab show.
package md

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/render"
)

// Write writes the report.
func Write(out io.Writer, r model.Report) error {
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "# %s\n\nData quality: **%s**.\n", escape(render.Title(r)), escape(r.Answer.Quality.Grade))
	for _, s := range render.Sections(r) {
		fmt.Fprintf(w, "\n## %s. %s\n", s.Number, escape(s.Title))
		for _, l := range s.Lead {
			fmt.Fprintf(w, "\n%s\n", escape(l))
		}
		switch s.Anchor {
		case "actions":
			actions(w, r)
			continue
		case "methods":
			queries(w, r)
			continue
		}
		for _, t := range s.Tables {
			table(w, t)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("writing Markdown: %w", err)
	}
	return nil
}

func table(w io.Writer, t render.Table) {
	fmt.Fprintf(w, "\n### %s\n\n", escape(t.Title))
	if len(t.Rows) == 0 {
		fmt.Fprintf(w, "%s\n", escape(t.Empty))
		return
	}
	head, rule := "|", "|"
	for _, c := range t.Columns {
		head += " " + escape(c.Name) + " |"
		if c.Right {
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	fmt.Fprintf(w, "%s\n%s\n", head, rule)
	var notes []string
	for _, row := range t.Rows {
		line := "|"
		for _, c := range row {
			text := escape(c.Text)
			if c.Why != "" {
				mark := note(&notes, c.Why)
				text += " (" + mark + ")"
			}
			line += " " + text + " |"
		}
		fmt.Fprintln(w, line)
	}
	for i, n := range notes {
		fmt.Fprintf(w, "\n(%d) %s\n", i+1, escape(n))
	}
	if t.Note != "" {
		fmt.Fprintf(w, "\n%s\n", escape(t.Note))
	}
}

// note numbers the reasons of a table.
func note(notes *[]string, why string) string {
	for i, n := range *notes {
		if n == why {
			return fmt.Sprint(i + 1)
		}
	}
	*notes = append(*notes, why)
	return fmt.Sprint(len(*notes))
}

func actions(w io.Writer, r model.Report) {
	if len(r.Actions) == 0 {
		fmt.Fprint(w, "\nNothing stands out.\n")
	}
	for i, a := range r.Actions {
		fmt.Fprintf(w, "\n### %d. %s\n\n%s %s %s", i+1, escape(a.Title), escape(strings.ToUpper(a.Effect[:1])+a.Effect[1:]), render.Hours(a.Hours), render.HoursOf(a))
		if _, ok := a.Money.Get(); ok && r.Currency != "" {
			fmt.Fprintf(w, ", %s %s", render.Money(a.Money), escape(r.Currency))
		}
		fmt.Fprintf(w, ". Confidence %s: %s. Risk: %s\n", escape(a.Confidence), escape(a.Because), escape(a.Risk))
		block(w, a.Patch)
		fmt.Fprint(w, "\nThe query:\n")
		block(w, a.Query)
	}
}

func queries(w io.Writer, r model.Report) {
	for _, q := range r.Methods.Queries {
		step := q.Step
		if step == "" {
			step = "at the end"
		}
		fmt.Fprintf(w, "\n%s (%s):\n", escape(q.What), escape(step))
		block(w, q.PromQL)
	}
}

// block writes code in a fence longer than any in it.
func block(w io.Writer, code string) {
	fence := "```"
	for strings.Contains(code, fence) {
		fence += "`"
	}
	fmt.Fprintf(w, "\n%s\n%s\n%s\n", fence, render.Code(code), fence)
}

var escaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "|", `\|`, "#", `\#`, "!", `\!`, "~", `\~`, "&", "&amp;",
	// A word joiner keeps text from becoming a link.
	"://", ":\u2060//", "@", "&#64;", "www.", "www&#46;",
)

// escape escapes Markdown and HTML.
func escape(s string) string { return escaper.Replace(render.Visible(s)) }
