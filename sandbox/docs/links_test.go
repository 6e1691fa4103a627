package docs

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpuscale/gpuscale/internal/require"
)

// small is a tree with an example of everything that matters for links.
func small(t *testing.T) Tree {
	t.Helper()
	files := fstest.MapFS{}
	for path, text := range map[string]string{
		"README.md": "[a](docs/a.md)\n# Top", "docs/README.md": "[a](a.md) [f](more)", "docs/a.md": "# Über `x`: y\n[b](b.md)", "docs/b.md": "", "docs/lost.md": "",
		"docs/more/README.md": "", "docs/img/x.png": "",
	} {
		files[path] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := newTree(files, []string{"README.md", "docs/README.md", "docs/a.md", "docs/b.md", "docs/lost.md", "docs/more/README.md"})
	require.NoError(t, err)
	return tree
}

func TestCheckLink(t *testing.T) {
	tree := small(t)
	for target, wrong := range map[string]string{
		"a.md": "", "a.md#über-x-y": "", "../README.md#top": "", "img": "", "img/x.png": "", "https://example.com/x": "", "more/": "",
		home + "blob/main/docs/a.md#%C3%BCber-x-y": "",
		"c.md":                       "there is no docs/c.md",
		"a.md#gone":                  "no heading #gone",
		"#gone":                      "no heading #gone",
		"/docs/a.md":                 "slash",
		"../../x.md":                 "out of the repository",
		"file:///x":                  "kind file:",
		"img/x.png#a":                "no page",
		home + "blob/main/docs/c.md": "there is no docs/c.md",
	} {
		err := tree.CheckLink("docs/README.md", Link{Line: 1, Target: target})
		if got := fmt.Sprint(err); wrong == "" && err != nil || !strings.Contains(got, wrong) {
			t.Errorf("%s: %s, want %q", target, got, wrong)
		}
	}
	if err := tree.CheckLink("docs/README.md", Link{Line: 1, Target: "a.md", Image: true}); err == nil {
		t.Error("a page is taken for an image")
	}
}
