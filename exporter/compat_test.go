package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gpuscale/gpuscale/internal/require"
)

const compatPage = "../docs/internals/exporter-compat.md"

// rows returns the table rows of the page under a heading, cell by cell.
func rows(t *testing.T, heading string) [][]string {
	t.Helper()
	text, err := os.ReadFile(compatPage)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "\n## "+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", compatPage, heading)
	}
	part, _, _ := strings.Cut(rest, "\n## ")
	var out [][]string
	for line := range strings.Lines(part) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || !strings.HasSuffix(line, "|") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		out = append(out, cells)
	}
	return out[1:] // the first is the table's head
}

// The page has the program's flags, each with its short form and variable, and "no effect" for the same flags as the
// program.
func TestPageHasEveryFlag(t *testing.T) {
	page := map[string][]string{}
	for _, row := range rows(t, "Flags and environment") {
		if len(row) != 4 || page[row[0]] != nil {
			t.Fatalf("row %q", row)
		}
		page[row[0]] = row
	}
	for _, o := range new(config).options() {
		if o.env == "" || o.env == "NODE_NAME" || o.env == "KUBERNETES_FRACTIONAL_GPUS" {
			continue // ours
		}
		short, begins := o.short, "same|different"
		if o.name == "replace-blanks-in-model-name" {
			short = "-rbmn"
		}
		if short != "" {
			short = "-" + short
		}
		if o.into == nil {
			begins = "no effect: "
		}
		row := page["--"+o.name]
		if delete(page, "--"+o.name); row == nil || row[1] != short || row[2] != o.env || !regexp.MustCompile("^("+begins+")").MatchString(row[3]) {
			t.Errorf("--%s: the page has %q, want %q, %q and %s", o.name, row, short, o.env, begins)
		}
	}
	for name := range page {
		t.Errorf("%s is on the page and not known", name)
	}
}

// Every label on a DCGM series of a golden exposition is on the page.
func TestPageHasEveryLabel(t *testing.T) {
	known := map[string]bool{}
	for _, row := range rows(t, "Labels") {
		for _, m := range regexp.MustCompile(`[A-Za-z_]+`).FindAllString(row[0], -1) {
			known[m] = true
		}
	}
	series := regexp.MustCompile(`(?m)^DCGM_\w+\{(.*)\} \S+$`)
	name := regexp.MustCompile(`(?:^|",)(\w+)="`)
	for file, archive := range goldens(t) {
		if file == "kubernetes" {
			continue // its pods' labels are the pods'
		}
		for _, f := range archive.Files {
			for _, m := range series.FindAllStringSubmatch(string(f.Data), -1) {
				for _, l := range name.FindAllStringSubmatch(m[1], -1) {
					if !known[l[1]] && !strings.HasPrefix(l[1], "DCGM_") {
						t.Errorf("%s: label %s is not on the page", file, l[1])
						known[l[1]] = true
					}
				}
			}
		}
	}
}

// The page lists the existing golden expositions.
func TestPageHasEveryMode(t *testing.T) {
	there := goldens(t)
	for _, row := range rows(t, "Golden expositions") {
		if there[row[0]] == nil {
			t.Errorf("%s is on the page and not in testdata", row[0])
		}
		delete(there, row[0])
	}
	for file := range there {
		t.Errorf("%s is not on the page", file)
	}
}

func goldens(t *testing.T) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("collect/testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden expositions: %v", err)
	}
	out := map[string]*txtar.Archive{}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		require.NoError(t, err)
		out[strings.TrimSuffix(filepath.Base(file), ".txtar")] = archive
	}
	return out
}
