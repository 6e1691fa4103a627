package changelog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = `# Changelog

Words about the file.

## Unreleased

## 0.2.0 / 2026-12-01

- [BUGFIX] adapter: two.
  More of it.

## 0.1.0-rc.1 / 2026-11-01
- [FEATURE] one.
`

func TestNotes(t *testing.T) {
	sections, err := Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ version, body, err string }{
		{"0.2.0", "- [BUGFIX] adapter: two.\n  More of it.", ""},
		{"0.1.0-rc.1", "- [FEATURE] one.", ""},
		{"0.3.0", "", `no section "0.3.0"`},
		{"0.1.0", "", `no section "0.1.0"`},
		{Unreleased, "", "nothing in section"},
	} {
		t.Run(c.version, func(t *testing.T) {
			s, err := Notes(sections, c.version)
			if s.Body != c.body || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %q, %v", s.Body, err)
			}
		})
	}
}

func TestBadFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no date":          {"## 0.1.0\n", "line 1"},
		"no version":       {"\n## next / 2026-01-01\n", "line 2"},
		"twice":            {"## 0.1.0 / 2026-01-01\n## 0.1.0 / 2026-01-02\n", "a second section 0.1.0"},
		"Unreleased below": {"## 0.1.0 / 2026-01-01\n## Unreleased\n", "must be the first"},
		"unknown kind":     {"## Unreleased\n- [FIX] x\n", "line 2"},
		"no kind":          {"## Unreleased\n- adapter: x\n", "line 2"},
		"all problems":     {"## 0.1.0\n- x\n", "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The repository's own file can be released from.
func TestOurs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections, err := Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(sections) == 0 || sections[0].Version != Unreleased {
		t.Error("CHANGELOG.md does not begin with Unreleased")
	}
}

// Whatever is in the file: no panic, and every section that is read can be found.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add("## Unreleased\n- [CHANGE] x\n## 1.0.0 / 2026-01-01\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		sections, err := Parse(text)
		if err != nil {
			return
		}
		for _, s := range sections {
			got, err := Notes(sections, s.Version)
			if (err == nil) != (s.Body != "") || (err == nil && got != s) {
				t.Errorf("section %q: got %+v, %v", s.Version, got, err)
			}
		}
	})
}
