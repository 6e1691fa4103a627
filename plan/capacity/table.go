package capacity

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// table lays words out in columns: names to the left, figures to the right.
type table struct {
	lines [][]string
	left  int // columns that hold names
}

func newTable(left int, head ...string) *table { return &table{left: left, lines: [][]string{head}} }

// add adds a line; an empty name is shown as "-".
func (t *table) add(words ...string) {
	for i := range words {
		if words[i] == "" {
			words[i] = "-"
		}
	}
	t.lines = append(t.lines, words)
}

// String returns the table, a newline behind every line and no blanks before it.
func (t *table) String() string {
	var widths []int
	for _, line := range t.lines {
		for i, w := range line {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(w))
		}
	}
	var b strings.Builder
	for _, line := range t.lines {
		text := ""
		for i, w := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(w))
			if i < t.left {
				text += w + pad + "  "
			} else {
				text += pad + w + "  "
			}
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	return b.String()
}

// number prints two decimals; what is not zero never prints as zero.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', 2, 64)
	if v != 0 && (text == "0.00" || text == "-0.00") {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	return text
}
