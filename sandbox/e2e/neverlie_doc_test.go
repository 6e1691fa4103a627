package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// checkDoc compares the results of gpuscale-adapter with docs/internals/never-lie.md, and logs the rows of
// its table for both.
func checkDoc(t *testing.T, found []finding) {
	t.Helper()
	root, err := build.FindRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "internals", "never-lie.md"))
	require.NoError(t, err)
	var rows []string
	for _, s := range shapes() {
		rows = append(rows, s.row())
	}
	for _, f := range faultsIn(found) {
		rows = append(rows, row(found, f, ours))
		t.Logf("%s\n%s", row(found, f, ours), row(found, f, theirs))
	}
	for _, r := range rows {
		if !strings.Contains(string(page), r) {
			t.Errorf("docs/internals/never-lie.md does not have: %s", r)
		}
	}
}

func (x finding) down() bool { return x.least < replicas }
func (x finding) up() bool   { return x.most > replicas }

// row returns a row of the table without the parts that differ between runs.
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
