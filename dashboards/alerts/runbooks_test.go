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

// fact is the line that each page begins with.
func fact(a alerts.Alert) string {
	after := "At once"
	if a.For > 0 {
		after = "After " + model.Duration(a.For).String()
	}
	line := fmt.Sprintf("Severity: %s. %s.", a.Severity, after)
	if a.Threshold != 0 {
		line += fmt.Sprintf(" Threshold: %v (", a.Threshold)
	}
	return line
}

// Each alert has its page, each page its alert, and both agree on severity and For. All
// pages have one form; their content is checked with the other docs.
func TestRunbooks(t *testing.T) {
	for _, a := range alerts.All() {
		raw, err := os.ReadFile(filepath.Join(runbooks, a.Name+".md"))
		require.NoError(t, err)
		text := string(raw)
		if !strings.HasPrefix(text, "# "+a.Name+"\n\n"+fact(a)) {
			t.Errorf("%s.md begins with %.200q; want its name and %q", a.Name, text, fact(a))
		}
		var titles []string
		for line := range strings.Lines(text) {
			if title, ok := strings.CutPrefix(line, "## "); ok {
				titles = append(titles, strings.TrimSpace(title))
			}
		}
		if !slices.Equal(titles, sections) {
			t.Errorf("%s.md has %q", a.Name, titles)
		}
		if !strings.Contains(text, "```promql\n") && !strings.Contains(text, "```sh\n") {
			t.Errorf("%s.md has no commands", a.Name)
		}
	}
	if all, err := filepath.Glob(filepath.Join(runbooks, "G*.md")); err != nil || len(all) != len(alerts.All()) {
		t.Errorf("%d pages for %d alerts, %v", len(all), len(alerts.All()), err)
	}
}

const tableFrom, tableTo = "<!-- the table is written by go test ./dashboards/alerts -update -->\n", "<!-- end of the table -->\n"

// The list of all pages matches the alerts.
func TestRunbookTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| alert | severity | for | threshold | why |\n|---|---|---|---|---|\n")
	for _, a := range alerts.All() {
		threshold := ""
		if a.Threshold != 0 {
			threshold = fmt.Sprint(a.Threshold)
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
