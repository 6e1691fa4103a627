package view

import (
	"strings"
	"unicode/utf8"
)

// between the parts of the live line.
const between = " │ "

// stack the parts of the live line into as many lines as a terminal of that
// width needs. No line is wider: the rest of a wrapped line would stay when it is
// painted again.
func stack(line string, width int) []string {
	var out []string
	for i, part := range strings.Split(line, between) {
		if i > 0 {
			last := out[len(out)-1]
			if utf8.RuneCountInString(last+between+part) <= width {
				out[len(out)-1] = last + between + part
				continue
			}
			part = "       " + part // below what stands after the clock
		}
		out = append(out, part)
	}
	for i, l := range out {
		out[i] = truncate(l, width)
	}
	return out
}

// fold a line at its spaces, so that it goes on indented.
func fold(line string, width, indent int) string {
	var out []string
	for utf8.RuneCountInString(line) > width {
		runes := []rune(line)
		at := width
		for at > indent && runes[at] != ' ' {
			at--
		}
		if at <= indent || strings.TrimSpace(string(runes[:at])) == "" { // a word wider than the terminal
			break
		}
		out = append(out, strings.TrimRight(string(runes[:at]), " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(string(runes[at:]), " ")
	}
	return strings.Join(append(out, line), "\n")
}

// truncate a line to the width.
func truncate(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	runes := []rune(s)
	return strings.TrimRight(string(runes[:max(0, width-1)]), " ") + "…"
}
