package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// examples are the faults whose message the page shows.
var examples = []string{"down: connection refused", "NaN from half the pods", "half the targets gone"}

// checkDoc compares gpuscale-adapter's results with docs/internals/never-lie.md; with
// -update it writes them there.
func checkDoc(t *testing.T, found []finding) {
	t.Helper()
	root, err := build.FindRoot()
	require.NoError(t, err)
	path := filepath.Join(root, "docs", "internals", "never-lie.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	parts := written(found)
	t.Logf("found:\n%s\n%s", parts["faults"], parts["messages"])
	if *update {
		if t.Failed() {
			t.Error("docs/internals/never-lie.md is not written: the test has failed")
			return
		}
		for name, text := range parts {
			before, rest, begins := strings.Cut(string(page), "<!-- "+name+" -->\n")
			_, after, ends := strings.Cut(rest, "<!-- end -->\n")
			if !begins || !ends {
				t.Fatalf("docs/internals/never-lie.md has no part %s", name)
			}
			page = []byte(before + "<!-- " + name + " -->\n" + text + "<!-- end -->\n" + after)
		}
		require.NoError(t, os.WriteFile(path, page, 0o644))
		return
	}
	for _, s := range shapes() {
		if !strings.Contains(string(page), s.row()) {
			t.Errorf("docs/internals/never-lie.md does not have: %s", s.row())
		}
	}
	for _, f := range faultsIn(found) {
		if line := row(found, f, ours); !strings.Contains(string(page), line) {
			t.Errorf("docs/internals/never-lie.md differs from what was found (`make never-lie` writes it again): %s", line)
		}
	}
}

// written are the parts of docs/internals/never-lie.md between <!-- NAME --> and <!-- end -->.
func written(found []finding) map[string]string {
	var faults, messages strings.Builder
	faults.WriteString("| Prometheus | adapter |")
	for _, c := range cells() {
		fmt.Fprintf(&faults, " %s |", c)
	}
	faults.WriteString("\n|---|---|" + strings.Repeat("---|", len(cells())) + "\n")
	for _, f := range faultsIn(found) {
		for _, a := range adapters() {
			faults.WriteString(row(found, f, a) + "\n")
		}
	}
	count := func(a adapter, is func(finding) bool) (n int) {
		for _, x := range found {
			if x.adapter == a && is(x) {
				n++
			}
		}
		return n
	}
	fmt.Fprintf(&faults, "\nOf %d HPAs under each adapter, gpuscale's scaled down %d and v0.12.0's %d; up, gpuscale's %d and v0.12.0's %d.\n",
		len(found)/len(adapters()), count(ours, finding.down), count(theirs, finding.down), count(ours, finding.up), count(theirs, finding.up))
	for _, x := range found {
		if x.adapter == ours && x.cell == cells()[1] && !x.hpa.active && slices.Contains(examples, x.fault) {
			fmt.Fprintf(&messages, "- %s: %s\n", x.fault, sentence(x.hpa.message))
		}
	}
	return map[string]string{"faults": faults.String(), "messages": messages.String()}
}

func (x finding) down() bool { return x.least < replicas }
func (x finding) up() bool   { return x.most > replicas }

// sentence is the adapter's part of the controller's message.
func sentence(message string) string {
	const before = "custom metrics API: "
	if i := strings.LastIndex(message, before); i >= 0 {
		message = message[i+len(before):]
	}
	return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(message, "prometheus:9090")
}

// row of the table, without the parts that differ between runs.
func row(found []finding, fault string, a adapter) string {
	name, title := fault, "gpuscale"
	if a == theirs {
		name, title = "", "v0.12.0"
	}
	line := fmt.Sprintf("| %s | %s |", name, title)
	for _, c := range cells() {
		for _, x := range found {
			if x.adapter == a && x.fault == fault && x.cell == c {
				line += " " + x.text() + " |"
			}
		}
	}
	return line
}

func (x finding) text() string {
	var parts []string
	if x.down() {
		parts = append(parts, fmt.Sprintf("**down to %d**", x.least))
	}
	if x.up() {
		parts = append(parts, fmt.Sprintf("**up to %d**", x.most))
	}
	switch {
	case len(parts) == 0 && x.hpa.active:
		parts = append(parts, fmt.Sprint(replicas))
	case !x.hpa.active:
		parts = append(parts, "blind")
	}
	if !x.recovered {
		parts = append(parts, "**lost**")
	}
	return strings.Join(parts, ", ")
}

func faultsIn(found []finding) (names []string) {
	for _, x := range found {
		if len(names) == 0 || names[len(names)-1] != x.fault {
			names = append(names, x.fault)
		}
	}
	return names
}
