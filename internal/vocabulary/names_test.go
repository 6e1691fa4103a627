package vocabulary

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	// testName matches the name of a test in a sentence; a star stands for the rest of a name. A test that
	// no longer exists is named with "of commit".
	testName   = regexp.MustCompile("\\b((?:Test|Fuzz|Benchmark)[A-Z]\\w*)(\\*?)(` of commit)?")
	pathName   = regexp.MustCompile("`(?:\\./)?((?:adapter|autoscaler|dashboards|deploy|docs|exporter|gpu|internal|plan|report|sandbox)/[\\w./*{},-]+)`| \\./([a-z][\\w./-]*)")
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):(?:[^=]|$)`)
	makeName   = regexp.MustCompile("(?:`|^ *(?:\\$ )?)make ([a-z][a-z-]*)")
)

// alternatives expands the first braces of a path: a/{b,c}.go is a/b.go, a/c.go.
func alternatives(path string) []string {
	before, rest, found := strings.Cut(path, "{")
	inner, after, closed := strings.Cut(rest, "}")
	if !found || !closed {
		return []string{path}
	}
	var out []string
	for _, one := range strings.Split(inner, ",") {
		out = append(out, before+one+after)
	}
	return out
}

// TestNames: the tests, paths and make targets that pages name exist.
func TestNames(t *testing.T) {
	var tests []string
	for _, path := range files(t, "_test.go") {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			tests = append(tests, string(m[1]))
		}
	}
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	require.NoError(t, err)
	var targets []string
	for _, m := range makeTarget.FindAllSubmatch(makefile, -1) {
		targets = append(targets, string(m[1]))
	}
	seen := map[string]int{}
	for _, path := range files(t, ".md") {
		rel, _ := filepath.Rel(root(t), path)
		if rel == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for i, line := range strings.Split(string(text), "\n") {
			for _, m := range testName.FindAllStringSubmatch(line, -1) {
				seen["test"]++
				if m[3] == "" && !slices.ContainsFunc(tests, func(s string) bool { return s == m[1] || m[2] != "" && strings.HasPrefix(s, m[1]) }) {
					t.Errorf("%s:%d: no test %s", rel, i+1, m[1])
				}
			}
			for _, m := range pathName.FindAllStringSubmatch(line, -1) {
				for _, one := range alternatives(strings.TrimSuffix(m[1]+m[2], "/...")) {
					seen["path"]++
					if found, err := filepath.Glob(filepath.Join(root(t), one)); err != nil || len(found) == 0 {
						t.Errorf("%s:%d: no path %s", rel, i+1, one)
					}
				}
			}
			for _, m := range makeName.FindAllStringSubmatch(line, -1) {
				seen["target"]++
				if !slices.Contains(targets, m[1]) {
					t.Errorf("%s:%d: no make target %s", rel, i+1, m[1])
				}
			}
		}
	}
	for _, kind := range []string{"test", "path", "target"} {
		if seen[kind] < 10 {
			t.Errorf("only %d names of kind %s found", seen[kind], kind)
		}
	}
}
