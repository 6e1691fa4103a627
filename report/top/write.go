package top

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/report/render"
)

// Forms of the output.
var Forms = []string{"table", "wide", "json", "yaml"}

// list is the JSON and YAML form.
type list struct {
	Schema int   `json:"schema"`
	Rows   []Row `json:"rows"`
}

// Look is the style of a table.
type Look struct {
	Colour bool
	// Width of the terminal in characters; 0 leaves names as long as they are.
	Width int
}

// Write writes the rows in one of Forms.
func Write(w io.Writer, rows []Row, form string, look Look) error {
	if rows == nil {
		rows = []Row{}
	}
	switch form {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list{1, rows})
	case "yaml":
		raw, err := yaml.Marshal(list{1, rows})
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		_, err = w.Write(raw)
		return err
	}
	_, err := io.WriteString(w, table(rows, form == "wide", look))
	return err
}

const dash = "–"

func table(rows []Row, wide bool, look Look) string {
	head := []string{"NAMESPACE", "POD", "NODE", "GPU", "SLICE", "STATE", "USE", "IDLE FOR", "MEMORY"}
	if wide {
		head = append(head, "CONTAINER", "MODEL", "UUID")
	}
	lines := [][]string{head}
	for _, r := range rows {
		slice := r.Profile
		if slice == "" {
			slice = "whole"
		}
		line := []string{or(r.Namespace), or(r.Pod), r.Node, r.GPU, slice, r.State, ratio(r.Busy), since(r.IdleSeconds), memory(r)}
		if wide {
			line = append(line, or(r.Container), or(r.Model), r.UUID)
		}
		for i := range line {
			line[i] = render.Visible(line[i])
		}
		lines = append(lines, line)
	}
	if len(rows) == 0 {
		return "nothing is allocated\n"
	}
	if !wide {
		fit(lines, look.Width)
	}
	return align(lines, look.Colour)
}

// Columns of names, which may be shortened, and their shortest width.
const (
	namespaceColumn = 0
	podColumn       = 1
	nodeColumn      = 2
	shortest        = 10
)

// fit shortens nodes, then pods, then namespaces in their middle until a line fits:
// their ends distinguish them.
func fit(lines [][]string, width int) {
	for _, column := range []int{nodeColumn, podColumn, namespaceColumn} {
		over := sum(widths(lines)) - width
		if width <= 0 || over <= 0 {
			return
		}
		longest := max(shortest, widths(lines)[column]-over)
		for _, line := range lines {
			line[column] = shorten(line[column], longest)
		}
	}
}

func shorten(word string, n int) string {
	r := []rune(word)
	if len(r) <= n {
		return word
	}
	head := (n - 1) / 3
	return string(r[:head]) + "…" + string(r[len(r)-(n-1-head):])
}

// widths of the columns, in characters.
func widths(lines [][]string) []int {
	all := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, word := range line {
			all[i] = max(all[i], utf8.RuneCountInString(word))
		}
	}
	return all
}

// sum of the columns and what is between them.
func sum(widths []int) int {
	n := 2 * (len(widths) - 1)
	for _, w := range widths {
		n += w
	}
	return n
}

// colours by state, as terminal codes.
var colours = map[string]string{"busy": "32", "idle": "33", "sick": "31", "unknown": "35", "allocated": "35"}

func align(lines [][]string, colour bool) string {
	widths := widths(lines)
	var b strings.Builder
	for n, line := range lines {
		for i, word := range line {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(word))
			if code := colours[word]; colour && n > 0 && i == 5 && code != "" {
				word = "\x1b[" + code + "m" + word + "\x1b[0m"
			}
			switch {
			case i == len(line)-1:
				b.WriteString(word)
			default:
				b.WriteString(word + pad + "  ")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func or(s string) string {
	if s == "" {
		return dash
	}
	return s
}

func ratio(v *float64) string {
	if v == nil {
		return render.None
	}
	return fmt.Sprintf("%.0f %%", 100**v)
}

func since(v *float64) string {
	switch {
	case v == nil:
		return dash
	case *v <= 0:
		return dash
	}
	d := time.Duration(*v) * time.Second
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func memory(r Row) string {
	const gib = 1 << 30
	switch {
	case r.MemoryUsed == nil:
		return render.None
	case r.MemoryTotal == nil:
		return fmt.Sprintf("%.1f GiB", *r.MemoryUsed/gib)
	}
	return fmt.Sprintf("%.1f/%.0f GiB", *r.MemoryUsed/gib, *r.MemoryTotal/gib)
}
