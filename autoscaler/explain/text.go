package explain

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// WriteJSON writes d as one indented document. Equal documents give equal bytes.
func (d Document) WriteJSON(w io.Writer) error { return Encode(w, d) }

// Encode writes v as indented JSON.
func Encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // details have < and > in them
	return e.Encode(v)
}

// maxLines bounds the members, actions and pods in text; JSON has all.
const maxLines = 20

// WriteText writes d as text.
func (d Document) WriteText(w io.Writer) error {
	var text strings.Builder
	b := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0) // rows of tables have tabs, other lines none
	fmt.Fprintf(b, "%s %s: %s\n", strings.ToLower(d.Kind), d.Subject, d.Answer.Reason)
	indent(b, "", d.Answer.Detail)
	indent(b, "meaning", d.Answer.Meaning)
	if len(d.Changes) == 0 && d.Answer.WhatToDo != "" {
		indent(b, "what to do", d.Answer.WhatToDo)
	}
	d.podText(b)
	d.poolText(b)
	d.memberText(b)
	d.optionText(b)
	d.actionText(b)
	d.changeText(b)
	fmt.Fprintf(b, "\nplanned on the snapshot of %s\n", d.At.Format(time.RFC3339))
	_ = b.Flush() // a strings.Builder returns no error
	_, err := io.WriteString(w, strings.Map(harmless, text.String()))
	return err
}

// harmless replaces control characters in names and details: a terminal would interpret
// them.
func harmless(r rune) rune {
	if r != '\n' && unicode.IsControl(r) {
		return unicode.ReplacementChar
	}
	return r
}

func indent(b io.Writer, name, text string) {
	switch {
	case text == "":
	case name == "":
		fmt.Fprintf(b, "  %s\n", text)
	default:
		fmt.Fprintf(b, "  %s: %s\n", name, text)
	}
}

func (d Document) podText(b io.Writer) {
	p := d.Pod
	if p == nil {
		return
	}
	fmt.Fprintln(b)
	if p.Name != d.Subject {
		fmt.Fprintf(b, "decided by its member %s\n", p.Name)
	}
	fmt.Fprintf(b, "requests %s, pending for %s, priority %d, rank %d of %d pending pods\n", p.Requests, seconds(p.Waits), p.Priority, p.Rank, p.Waiting)
	if p.Tenant != "" {
		borrows := ""
		if p.Borrows {
			borrows = ", beyond its guarantee"
		}
		fmt.Fprintf(b, "tenant %s%s\n", p.Tenant, borrows)
	}
	if p.Gang != "" {
		fmt.Fprintf(b, "member of gang %s, which needs %d running members\n", p.Gang, p.GangMin)
	}
}

func (d Document) poolText(b io.Writer) {
	p := d.Pool
	if p == nil {
		return
	}
	kind := "on-demand"
	if p.Spot {
		kind = "spot"
	}
	size := fmt.Sprintf("%d nodes of %d requested, min %d, max %d", p.Size, p.Target, p.Min, p.Max)
	if p.Fixed {
		size, kind = fmt.Sprintf("%d nodes", p.Size), "fixed: does not scale"
	}
	fmt.Fprintf(b, "\n%s, %s, %.2f an hour each, %s\n", size, p.Model, p.CostPerHour, kind)
	groupText(b, "nodes", p.Nodes)
	groupText(b, "GPUs", p.GPUs)
	listText(b, "actions for", p.WaitingFor)
}

func groupText(b io.Writer, what string, groups []Group) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", what)
	for _, g := range groups {
		example := g.Example
		if g.Detail != "" {
			example += ": " + g.Detail
		}
		fmt.Fprintf(b, "  %d\t%s\t%s\n", g.Count, g.Reason, example)
	}
}

func listText(b io.Writer, what string, names []string) {
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - maxLines; n > 0 {
		names, more = names[:maxLines], fmt.Sprintf(" and %d more", n)
	}
	fmt.Fprintf(b, "\n%s: %s%s\n", what, strings.Join(names, " "), more)
}

func (d Document) memberText(b io.Writer) {
	if len(d.Members) == 0 {
		return
	}
	fmt.Fprint(b, "\nmembers\n")
	for i, m := range d.Members {
		if i == maxLines {
			fmt.Fprintf(b, "  and %d more\n", len(d.Members)-i)
			break
		}
		fmt.Fprintf(b, "  %s\t%s\t%s\n", m.Name, m.Reason, m.Detail)
	}
}

func (d Document) optionText(b io.Writer) {
	if len(d.Options) == 0 {
		return
	}
	fmt.Fprint(b, "\noptions\n  \tOPTION\tON\tCOST\tREADY IN\tWHY\n")
	for _, o := range d.Options {
		mark, cost, in, why := "  ", "-", "-", o.Reason+": "+o.Detail
		switch {
		case o.Chosen:
			mark, why = "=>", o.Detail
		case o.Possible && o.Lost != "":
			why = o.Lost + " (" + o.Detail + ")"
		}
		if o.Cost != nil {
			cost = fmt.Sprintf("%.2f", *o.Cost)
		}
		if o.In != nil {
			in = seconds(*o.In)
		}
		fmt.Fprintf(b, "%s\t%s\t%s\t%s\t%s\t%s\n", mark, o.Kind, cmp.Or(o.On, "-"), cost, in, why)
	}
}

func (d Document) actionText(b io.Writer) {
	if len(d.Actions) == 0 {
		return
	}
	fmt.Fprint(b, "\nactions of this reconcile\n")
	for i, a := range d.Actions {
		if i == maxLines {
			fmt.Fprintf(b, "  and %d more\n", len(d.Actions)-i)
			break
		}
		fmt.Fprintf(b, "  %s %s: %s: %s\n", a.Verb, a.On, a.Reason, a.Detail)
	}
}

func (d Document) changeText(b io.Writer) {
	if d.Tried == 0 {
		return
	}
	if len(d.Changes) == 0 {
		fmt.Fprintf(b, "\nnone of %d changes tried would serve it\n", d.Tried)
		return
	}
	fmt.Fprint(b, "\nany of these changes would serve it (each was verified by planning with it)\n")
	for _, c := range d.Changes {
		fmt.Fprintf(b, "  %s: %s\n      then %s: %s\n", c.Who, c.What, c.Then.Reason, c.Then.Detail)
	}
}

func seconds(v float64) string {
	return (time.Duration(v * float64(time.Second))).Round(time.Second).String()
}
