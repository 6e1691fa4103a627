package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// WriteJSON writes d as one indented document. Equal documents give equal bytes.
func (d Document) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// mostLines bounds members, actions and pods that are printed; JSON has all.
const mostLines = 20

// WriteText writes d for people.
func (d Document) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", strings.ToLower(d.Kind), d.Subject, d.Answer.Reason)
	indent(&b, "", d.Answer.Detail)
	indent(&b, "meaning", d.Answer.Meaning)
	if len(d.Changes) == 0 && d.Answer.WhatToDo != "" {
		indent(&b, "what to do", d.Answer.WhatToDo)
	}
	d.podText(&b)
	d.poolText(&b)
	d.memberText(&b)
	d.optionText(&b)
	d.actionText(&b)
	d.changeText(&b)
	fmt.Fprintf(&b, "\nplanned on what was seen at %s\n", d.At.Format(time.RFC3339))
	_, err := io.WriteString(w, strings.Map(harmless, b.String()))
	return err
}

// harmless keeps what others have written into names and details from speaking to the
// terminal.
func harmless(r rune) rune {
	if r != '\n' && unicode.IsControl(r) {
		return unicode.ReplacementChar
	}
	return r
}

func indent(b *strings.Builder, name, text string) {
	switch {
	case text == "":
	case name == "":
		fmt.Fprintf(b, "  %s\n", text)
	default:
		fmt.Fprintf(b, "  %s: %s\n", name, text)
	}
}

func (d Document) podText(b *strings.Builder) {
	p := d.Pod
	if p == nil {
		return
	}
	b.WriteByte('\n')
	if p.Name != d.Subject {
		fmt.Fprintf(b, "decided at its member %s\n", p.Name)
	}
	fmt.Fprintf(b, "wants %s, has waited for %s, priority %d, %d of %d that wait\n", p.Wants, seconds(p.Waits), p.Priority, p.Rank, p.Waiting)
	if p.Tenant != "" {
		borrows := ""
		if p.Borrows {
			borrows = ", beyond what it is guaranteed"
		}
		fmt.Fprintf(b, "on account of tenant %s%s\n", p.Tenant, borrows)
	}
	if p.Gang != "" {
		fmt.Fprintf(b, "member of gang %s, of no use before %d run\n", p.Gang, p.GangMin)
	}
}

func (d Document) poolText(b *strings.Builder) {
	p := d.Pool
	if p == nil {
		return
	}
	kind := "on-demand"
	if p.Spot {
		kind = "spot"
	}
	size := fmt.Sprintf("%d nodes of %d asked for, %d … %d allowed", p.Size, p.Target, p.Min, p.Max)
	if p.Fixed {
		size, kind = fmt.Sprintf("%d nodes", p.Size), "fixed: no machines to buy, none is given back"
	}
	fmt.Fprintf(b, "\n%s, %s, %.2f an hour each, %s\n", size, p.Model, p.CostPerHour, kind)
	groupText(b, "nodes", p.Nodes)
	groupText(b, "cards", p.Cards)
	listText(b, "something is done to it for", p.WaitingFor)
}

func groupText(b *strings.Builder, what string, groups []Group) {
	if len(groups) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", what)
	table(b, func(w io.Writer) {
		for _, g := range groups {
			example := g.Example
			if g.Detail != "" {
				example += ": " + g.Detail
			}
			fmt.Fprintf(w, "  %d\t%s\t%s\n", g.Count, g.Reason, example)
		}
	})
}

func listText(b *strings.Builder, what string, names []string) {
	if len(names) == 0 {
		return
	}
	more := ""
	if n := len(names) - mostLines; n > 0 {
		names, more = names[:mostLines], fmt.Sprintf(" and %d more", n)
	}
	fmt.Fprintf(b, "\n%s: %s%s\n", what, strings.Join(names, " "), more)
}

func (d Document) memberText(b *strings.Builder) {
	if len(d.Members) == 0 {
		return
	}
	b.WriteString("\nmembers\n")
	table(b, func(w io.Writer) {
		for i, m := range d.Members {
			if i == mostLines {
				fmt.Fprintf(w, "  and %d more\n", len(d.Members)-i)
				break
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", m.Name, m.Reason, m.Detail)
		}
	})
}

func (d Document) optionText(b *strings.Builder) {
	if len(d.Options) == 0 {
		return
	}
	b.WriteString("\noptions\n")
	table(b, func(w io.Writer) {
		fmt.Fprint(w, "  \tOPTION\tON\tCOST\tREADY IN\tWHY\n")
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
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", mark, o.Kind, dash(o.On), cost, in, why)
		}
	})
}

func (d Document) actionText(b *strings.Builder) {
	if len(d.Actions) == 0 {
		return
	}
	b.WriteString("\nactions of this round\n")
	for i, a := range d.Actions {
		if i == mostLines {
			fmt.Fprintf(b, "  and %d more\n", len(d.Actions)-i)
			break
		}
		fmt.Fprintf(b, "  %s %s: %s: %s\n", a.Verb, a.On, a.Reason, a.Detail)
	}
}

func (d Document) changeText(b *strings.Builder) {
	if d.Tried == 0 {
		return
	}
	if len(d.Changes) == 0 {
		fmt.Fprintf(b, "\nnone of %d changes that were tried helps\n", d.Tried)
		return
	}
	b.WriteString("\nany one of these would help (each was tried by planning again)\n")
	for _, c := range d.Changes {
		fmt.Fprintf(b, "  %s: %s\n      then %s: %s\n", c.Who, c.What, c.Then.Reason, c.Then.Detail)
	}
}

func table(b *strings.Builder, fill func(w io.Writer)) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fill(w)
	_ = w.Flush() // into memory
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func seconds(v float64) string {
	return (time.Duration(v * float64(time.Second))).Round(time.Second).String()
}
