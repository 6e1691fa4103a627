package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	red    = "\x1b[1;31m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

// coloured text is for terminals.
type coloured bool

func (k coloured) in(colour, text string) string {
	if !k {
		return text
	}
	return colour + text + plain
}

// Write writes a report as text: findings, the worst first, then healthy checks in one
// line, then what could not be read.
func Write(w io.Writer, r Report, inColour bool) error {
	if _, err := io.WriteString(w, printed(r, coloured(inColour))); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

func printed(r Report, k coloured) string {
	if r.Nothing != "" {
		return r.Nothing + "\n"
	}
	var b strings.Builder
	for _, severity := range []Outcome{Fault, Warning} {
		for _, c := range r.Checks {
			findings(&b, c, severity, k)
		}
	}
	b.WriteString(Summary(r) + "\n")
	because(&b, "ok", r.Checks, OK, k)
	because(&b, "not known", r.Checks, Unknown, k)
	because(&b, "skipped", r.Checks, Skipped, k)
	return b.String()
}

// findings writes one check's findings of one severity.
func findings(b *strings.Builder, c Result, severity Outcome, k coloured) {
	for i, f := range c.Findings {
		if f.Severity != severity {
			continue
		}
		mark := k.in(red, "FAULT  ")
		if severity == Warning {
			mark = k.in(yellow, "WARNING")
		}
		fmt.Fprintf(b, "%s %s: %s\n", mark, c.ID, f.Object)
		fmt.Fprintf(b, "  seen:  %s\n  means: %s\n  fix:   %s\n", f.Seen, f.Means, f.Fix)
		for _, command := range f.Commands {
			fmt.Fprintf(b, "    %s\n", k.in(dim, command))
		}
		b.WriteByte('\n')
		if c.More > 0 && i == len(c.Findings)-1 {
			fmt.Fprintf(b, "        %s: %d more are left out\n\n", c.ID, c.More)
		}
	}
}

// Summary counts findings in one line.
func Summary(r Report) string {
	if r.Faults+r.Warnings+r.Unknown == 0 {
		return "No problem was found."
	}
	return fmt.Sprintf("%s, %s, %s not known.", count(r.Faults, "fault"), count(r.Warnings, "warning"), count(r.Unknown, "check"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// because lists checks with one outcome, those with the same reason, or with none, together.
func because(b *strings.Builder, title string, all []Result, o Outcome, k coloured) {
	var reasons []string
	by := map[string][]string{}
	for _, c := range all {
		if c.Outcome != o {
			continue
		}
		if !slices.Contains(reasons, c.Why) {
			reasons = append(reasons, c.Why)
		}
		by[c.Why] = append(by[c.Why], c.ID)
	}
	for _, why := range reasons {
		fmt.Fprintf(b, "%s: %s", title, strings.Join(by[why], ", "))
		if why != "" {
			b.WriteString(" " + k.in(dim, "("+why+")"))
		}
		b.WriteByte('\n')
	}
}

// WriteJSON writes a report for programs. Its schema is [Schema].
func WriteJSON(w io.Writer, r Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // commands have quotes and brackets, and are pasted as they are
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
