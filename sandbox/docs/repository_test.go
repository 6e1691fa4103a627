package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

func everything(string) bool { return true }

func tree(t testing.TB, want func(string) bool) Tree {
	t.Helper()
	tree, err := ReadTree(root(t), want)
	require.NoError(t, err)
	return tree
}

func TestEveryBlockHasAKind(t *testing.T) {
	seen := map[Kind]int{}
	for _, p := range tree(t, ForUsers).Pages {
		for _, b := range p.Blocks {
			kind, err := b.Kind()
			if err != nil {
				t.Errorf("%s:%d: %v", b.Page, b.Line, err)
			}
			seen[kind]++
		}
	}
	for _, kind := range []Kind{Manifest, File, JSON, Query, Counters, Commands, Output} {
		if seen[kind] == 0 {
			t.Errorf("no page has a block of the kind %q", kind)
		}
	}
	t.Log(seen)
}

func TestLinks(t *testing.T) {
	tree := tree(t, everything)
	n := 0
	for path, p := range tree.Pages {
		for _, l := range p.Links {
			n++
			if err := tree.CheckLink(path, l); err != nil {
				t.Error(err)
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d links were found", n)
	}
}

// TestIndex: every page can be reached from docs/README.md.
func TestIndex(t *testing.T) {
	tree := tree(t, everything)
	seen := tree.Reachable("docs/README.md")
	for path := range tree.Pages {
		if strings.HasPrefix(path, "docs/") && !seen[path] {
			t.Errorf("no link leads to %s from docs/README.md", path)
		}
	}
}

var pageInSource = regexp.MustCompile(`\bdocs/[\w./-]+\.md(?:#[\w-]+)?`)

// TestSourcesNamePages: pages that help texts, messages, comments, the chart and the alerts name exist.
func TestSourcesNamePages(t *testing.T) {
	tree := tree(t, everything)
	n := 0
	for path, text := range sources(t) {
		for i, line := range strings.Split(text, "\n") {
			for _, m := range pageInSource.FindAllString(line, -1) {
				n++
				if err := tree.CheckLink(path, Link{Line: i + 1, Target: home + "blob/main/" + m}); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d pages are named", n)
	}
}

// TestSeriesInSentences: a series of ours in inline code has an existing name and labels. internal/vocabulary
// checks paths, tests and make targets.
func TestSeriesInSentences(t *testing.T) {
	for path, p := range tree(t, ForUsers).Pages {
		for _, s := range p.Spans {
			if err := checkSeries(s.Text); err != nil {
				t.Errorf("%s:%d: %v", path, s.Line, err)
			}
		}
	}
}

func commands(p Page) []Command {
	var out []Command
	for _, b := range p.Blocks {
		if kind, err := b.Kind(); err == nil && kind == Commands {
			out = append(out, b.Commands()...)
		}
	}
	return out
}

func root(t testing.TB) string {
	t.Helper()
	root, err := build.FindRoot()
	require.NoError(t, err)
	return root
}

// sources returns the text of the tree's sources by path: Go, chart, manifests, boards and alerts.
func sources(t testing.TB) map[string]string {
	t.Helper()
	out := map[string]string{}
	dir := os.DirFS(root(t))
	err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && strings.HasPrefix(name, ".") || name == "node_modules" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".yaml", ".tpl", ".txt", ".json"}, filepath.Ext(path)) || strings.HasPrefix(path, "sandbox/docs/") {
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > 1<<20 {
			return err
		}
		text, err := fs.ReadFile(dir, path)
		out[path] = string(text)
		return err
	})
	require.NoError(t, err)
	return out
}
