package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Colours of a terminal.
const (
	red    = "\x1b[1;31m"
	yellow = "\x1b[33m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

// Write writes a report as text: first the findings, the worst first, then the healthy checks in one line,
// then what could not be read.
func Write(w io.Writer, r Report, inColour bool) error {
	in := func(colour, text string) string {
		if !inColour {
			return text
		}
		return colour + text + plain
	}
	var b strings.Builder
	if r.Nothing != "" {
		b.WriteString(r.Nothing + "\n")
	} else {
		for _, severity := range []Outcome{Fault, Warning} {
			for _, c := range r.Checks {
				findings(&b, c, severity, in)
			}
		}
		b.WriteString(Summary(r) + "\n")
		is := func(o Outcome) func(Result) bool { return func(c Result) bool { return c.Outcome == o } }
		because(&b, "checked in part", r.Checks, func(c Result) bool { return len(c.Findings) > 0 && c.Why != "" }, in)
		because(&b, "ok", r.Checks, is(OK), in)
		because(&b, "unknown", r.Checks, is(Unknown), in)
		because(&b, "skipped", r.Checks, is(Skipped), in)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

// findings writes the findings of a check that have this severity.
func findings(b *strings.Builder, c Result, severity Outcome, in func(colour, text string) string) {
	mark := map[Outcome]string{Fault: in(red, "FAULT  "), Warning: in(yellow, "WARNING")}[severity]
	for i, f := range c.Findings {
		if f.Severity != severity {
			continue
		}
		fmt.Fprintf(b, "%s %s: %s\n  seen:  %s\n  means: %s\n  fix:   %s\n", mark, c.ID, f.Object, f.Seen, f.Means, f.Fix)
		for _, command := range f.Commands {
			fmt.Fprintf(b, "    %s\n", in(dim, command))
		}
		b.WriteByte('\n')
		if c.More > 0 && i == len(c.Findings)-1 {
			fmt.Fprintf(b, "        %s: %d more findings are not shown\n\n", c.ID, c.More)
		}
	}
}

// because lists the checks for which some is true. Checks with the same reason are listed together.
func because(b *strings.Builder, title string, all []Result, some func(Result) bool, in func(colour, text string) string) {
	all = slices.DeleteFunc(slices.Clone(all), func(c Result) bool { return !some(c) })
	for len(all) > 0 {
		why, ids := all[0].Why, []string{}
		all = slices.DeleteFunc(all, func(c Result) bool {
			if c.Why == why {
				ids = append(ids, c.ID)
			}
			return c.Why == why
		})
		fmt.Fprintf(b, "%s: %s", title, strings.Join(ids, ", "))
		if why != "" {
			b.WriteString(" " + in(dim, "("+why+")"))
		}
		b.WriteByte('\n')
	}
}

// Summary counts findings in one line.
func Summary(r Report) string {
	if r.Faults+r.Warnings+r.Unknown == 0 {
		return "No problem was found."
	}
	return fmt.Sprintf("%s, %s, %s unknown.", count(r.Faults, "fault"), count(r.Warnings, "warning"), count(r.Unknown, "check"))
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
