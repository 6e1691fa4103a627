package docs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

var makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):(?:[^=]|$)`)

// CheckMake returns the targets of a make command that the Makefile lacks.
func (t Tree) CheckMake(words []string) error {
	text, err := fs.ReadFile(t.Files, "Makefile")
	if err != nil {
		return err
	}
	for _, w := range words[1:] {
		if plain.MatchString(w) && !has(makeTarget, string(text), w) {
			return fmt.Errorf("the Makefile has no target %s", w)
		}
	}
	return nil
}

// CheckGo returns the missing packages of a go command, and what its -run, -bench
// or -fuzz would not find in them.
func (t Tree) CheckGo(words []string) error {
	var folders []string
	patterns := map[string]string{}
	for i, w := range words[1:] {
		switch {
		case strings.HasPrefix(w, "./"):
			folders = append(folders, path.Clean(strings.TrimSuffix(w, "...")))
		case w == "-run" || w == "-bench" || w == "-fuzz":
			if i+2 < len(words) {
				patterns[w], _, _ = strings.Cut(words[i+2], "/")
			}
		}
	}
	var text strings.Builder
	for _, f := range folders {
		if info, err := fs.Stat(t.Files, f); err != nil || !info.IsDir() {
			return fmt.Errorf("there is no package %s", f)
		}
		files, err := fs.Glob(t.Files, f+"/*_test.go")
		if err != nil {
			return err
		}
		for _, p := range files {
			file, err := fs.ReadFile(t.Files, p)
			if err != nil {
				return err
			}
			text.Write(file)
		}
	}
	for name, kind := range map[string]string{"-run": "Test", "-bench": "Benchmark", "-fuzz": "Fuzz"} {
		want := strings.Trim(patterns[name], "^$")
		if want == "" || len(folders) == 0 || folders[0] == "." {
			continue
		}
		found, err := regexp.MatchString(`(?m)^func `+kind+`\w*?(?:`+strings.TrimPrefix(want, kind)+`)`, text.String())
		if err != nil || !found {
			return errors.Join(err, fmt.Errorf("%s %s finds nothing in %s", name, want, strings.Join(folders, " ")))
		}
	}
	return nil
}
