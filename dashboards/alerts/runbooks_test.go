package alerts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/internal/golden"
	"github.com/gpuscale/gpuscale/internal/require"
)

var (
	runbooks = filepath.Join("..", "..", "docs", "runbooks")
	sections = []string{"What it means", "How bad it is", "Look here first", "Fix", "How it resolves", "False alarms"}
)

// page is a runbook.
type page struct{ name, text string }

func pages(t *testing.T) []page {
	t.Helper()
	files, err := os.ReadDir(runbooks)
	require.NoError(t, err)
	var all []page
	for _, f := range files {
		if f.Name() == "README.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(runbooks, f.Name()))
		require.NoError(t, err)
		all = append(all, page{strings.TrimSuffix(f.Name(), ".md"), string(text)})
	}
	return all
}

// after is an alert's For in words.
func after(a alerts.Alert) string {
	if a.For == 0 {
		return "At once"
	}
	return "After " + model.Duration(a.For).String()
}

// fact is the line that each page begins with.
func fact(a alerts.Alert) string {
	line := fmt.Sprintf("Severity: %s. %s.", a.Severity, after(a))
	if a.Threshold != nil {
		line += fmt.Sprintf(" Threshold: %v (", *a.Threshold)
	}
	return line
}

// Each alert has its page, each page its alert, and both agree on severity and For. All
// pages have one form; their content is checked with the other docs.
func TestRunbooks(t *testing.T) {
	all := pages(t)
	for _, p := range all {
		a, ok := alerts.Find(p.name)
		if !ok {
			t.Errorf("%s.md belongs to no alert", p.name)
			continue
		}
		lines := strings.Split(p.text, "\n")
		if lines[0] != "# "+p.name || !strings.HasPrefix(lines[2], fact(a)) {
			t.Errorf("%s.md begins with %q, %q; want its name and %q", p.name, lines[0], lines[2], fact(a))
		}
		var titles []string
		for _, l := range lines {
			if title, ok := strings.CutPrefix(l, "## "); ok {
				titles = append(titles, title)
			}
		}
		if !slices.Equal(titles, sections) {
			t.Errorf("%s.md has %q", p.name, titles)
		}
		if len(blocks(p.text, "promql")) == 0 && len(blocks(p.text, "sh")) == 0 {
			t.Errorf("%s.md has no commands", p.name)
		}
	}
	if len(all) != len(alerts.All()) {
		t.Errorf("%d pages for %d alerts", len(all), len(alerts.All()))
	}
}

const tableFrom, tableTo = "<!-- the table is written by go test ./dashboards/alerts -update -->\n", "<!-- end of the table -->\n"

// The list of all pages matches the alerts.
func TestRunbookTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| alert | severity | for | threshold | why |\n|---|---|---|---|---|\n")
	for _, a := range alerts.All() {
		threshold := ""
		if a.Threshold != nil {
			threshold = fmt.Sprint(*a.Threshold)
		}
		fmt.Fprintf(&b, "| [%[1]s](%[1]s.md) | %s | %s | %s | %s |\n", a.Name, a.Severity, model.Duration(a.For), threshold, a.Why)
	}
	path := filepath.Join(runbooks, "README.md")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	head, rest, ok := strings.Cut(string(text), tableFrom)
	_, tail, ended := strings.Cut(rest, tableTo)
	if !ok || !ended {
		t.Fatalf("%s has no place for the table", path)
	}
	golden.Equal(t, path, head+tableFrom+b.String()+tableTo+tail)
}

// blocks are the lines of a page's blocks of one kind.
func blocks(text, kind string) []string {
	var lines []string
	for _, part := range strings.Split(text, "```"+kind+"\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		lines = append(lines, strings.Split(strings.TrimSpace(block), "\n")...)
	}
	return lines
}
