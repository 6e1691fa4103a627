package docs

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
)

// home is the repository's public URL. Links to it are checked like relative links.
const home = "https://github.com/gpuscale/gpuscale/"

// Tree is the repository: its files, and its parsed pages by path.
type Tree struct {
	Files fs.FS
	Pages map[string]Page
}

// ForUsers reports whether the blocks of a page are checked. Design notes (docs/internals/001 and so on) and
// the change log may name things that no longer exist.
func ForUsers(path string) bool {
	return path == "README.md" || path == "CONTRIBUTING.md" || path == "deploy/chart/gpuscale/README.md" ||
		strings.HasPrefix(path, "docs/") && !strings.HasPrefix(path, "docs/internals/0")
}

// ReadTree reads a checkout and parses the pages that want selects.
func ReadTree(root string, want func(path string) bool) (Tree, error) {
	files := os.DirFS(root)
	var pages []string
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "dist"}, name)) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") && want(path) {
			pages = append(pages, path)
		}
		return nil
	})
	if err != nil {
		return Tree{}, err
	}
	return newTree(files, pages)
}

// newTree parses the pages among the files.
func newTree(files fs.FS, pages []string) (Tree, error) {
	t := Tree{Files: files, Pages: map[string]Page{}}
	for _, p := range pages {
		text, err := fs.ReadFile(files, p)
		if err != nil {
			return t, fmt.Errorf("reading a page: %w", err)
		}
		t.Pages[p] = parse(p, string(text))
	}
	return t, nil
}

// Target returns the file below the root that a page's link leads to, and the anchor. The file is empty for a
// link that leaves the repository.
func (t Tree) Target(page, target string) (file, anchor string, err error) {
	target, ours := t.own(target)
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return "", "", err
	case u.Scheme == "http" || u.Scheme == "https" || u.Scheme == "mailto":
		return "", "", nil
	case u.Scheme != "":
		return "", "", fmt.Errorf("a link of the kind %s:", u.Scheme)
	case ours:
		return u.Path, u.Fragment, nil
	case strings.HasPrefix(u.Path, "/"):
		return "", "", fmt.Errorf("the path begins with a slash: it is in no checkout")
	case u.Path == "":
		return page, u.Fragment, nil
	}
	file = path.Join(path.Dir(page), u.Path)
	if !fs.ValidPath(file) {
		return "", "", fmt.Errorf("it leads out of the repository")
	}
	return file, u.Fragment, nil
}

// own removes the repository's URL from a link.
func (t Tree) own(target string) (string, bool) {
	for _, kind := range []string{"blob/main/", "tree/main/", "raw/main/"} {
		if rest, ok := strings.CutPrefix(target, home+kind); ok {
			return rest, true
		}
	}
	return target, false
}

// CheckLink returns an error for an invalid link of a page.
func (t Tree) CheckLink(page string, l Link) error {
	file, anchor, err := t.Target(page, l.Target)
	if err != nil {
		return fmt.Errorf("%s:%d: %s: %w", page, l.Line, l.Target, err)
	}
	if file == "" {
		return nil
	}
	wrong := func(what string) error { return fmt.Errorf("%s:%d: %s: %s", page, l.Line, l.Target, what) }
	info, err := fs.Stat(t.Files, file)
	if err != nil {
		return wrong("there is no " + file)
	}
	if l.Image && (info.IsDir() || !slices.Contains([]string{".png", ".svg", ".jpg", ".gif"}, path.Ext(file))) {
		return wrong("it is no image")
	}
	if anchor == "" {
		return nil
	}
	to, ok := t.Pages[file]
	if !ok {
		return wrong("an anchor in what is no page")
	}
	if !to.Anchors[anchor] {
		return wrong("there is no heading #" + anchor + " in " + file)
	}
	return nil
}

// Reachable returns the pages that can be reached by links from one page, over other pages and the README.md
// of folders. The page itself is included.
func (t Tree) Reachable(from string) map[string]bool {
	seen := map[string]bool{}
	next := []string{from}
	for len(next) > 0 {
		page := next[0]
		next = next[1:]
		if seen[page] {
			continue
		}
		p, ok := t.Pages[page]
		if !ok {
			continue
		}
		seen[page] = true
		for _, l := range p.Links {
			if file, _, err := t.Target(page, l.Target); err == nil && file != "" {
				next = append(next, file, path.Join(file, "README.md"))
			}
		}
	}
	return seen
}
