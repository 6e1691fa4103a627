package docs

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// What make, go and the rest of the tree are judged by: their sources, since running
// them is other tests' work.

// behindARGS is whose flags a make target passes on.
var behindARGS = map[string]string{
	"demo": "sandbox", "bench-exporter": "exporter/bench", "bench-adapter": "adapter/bench", "bench-autoscaler": "autoscaler/bench",
}

var (
	makeTarget   = regexp.MustCompile(`(?m)^([a-z][a-z-]*):(?:[^=]|$)`)
	makeVariable = regexp.MustCompile(`\$[({]([A-Z_]+)[)}]`)
)

// CheckMake says which targets and variables of a make command there are not in the
// Makefile, and which flags its ARGS have that the program behind has not.
func (t Tree) CheckMake(words []string) error {
	text, err := fs.ReadFile(t.Files, "Makefile")
	if err != nil {
		return err
	}
	var targets []string
	args := ""
	for _, w := range words[1:] {
		name, value, set := strings.Cut(w, "=")
		switch {
		case set && !has(makeVariable, string(text), name) && name != "GOVULNDB":
			return fmt.Errorf("the Makefile reads no variable %s", name)
		case set && name == "ARGS":
			args = value
		case set || strings.HasPrefix(w, "-"):
		case !has(makeTarget, string(text), w):
			return fmt.Errorf("the Makefile has no target %s", w)
		default:
			targets = append(targets, w)
		}
	}
	if args == "" {
		return nil
	}
	for _, target := range targets {
		if folder, ok := behindARGS[target]; ok {
			return t.checkDefined(folder, strings.Fields(args))
		}
	}
	return fmt.Errorf("nobody knows what ARGS of make %s goes to", strings.Join(targets, " "))
}

var defines = regexp.MustCompile(`\.(?:Bool|Int|Int64|Uint|Duration|Float64|String|StringSlice|Text|Func|Var)(?:Var)?P?\([^"\n]*"([a-zA-Z][a-zA-Z0-9-]*)"(?:, "([a-zA-Z])")?`)

// checkDefined looks for the flags of words where a folder's sources define them.
func (t Tree) checkDefined(folder string, words []string) error {
	known := map[string]bool{"-h": true, "-help": true, "--help": true}
	files, err := fs.Glob(t.Files, folder+"/*.go")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("there is no program in %s", folder)
	}
	for _, f := range files {
		text, err := fs.ReadFile(t.Files, f)
		if err != nil {
			return err
		}
		for _, m := range defines.FindAllStringSubmatch(string(text), -1) {
			known["-"+m[1]], known["--"+m[1]], known["-"+m[2]] = true, true, true
		}
	}
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		if given.MatchString(name) && !known[name] {
			return fmt.Errorf("%s has no flag %s", folder, name)
		}
	}
	return nil
}

// toolFlags of go test and go run that pages use; those with a value say so.
var toolFlags = map[string]bool{
	"-run": true, "-bench": true, "-fuzz": true, "-benchtime": true, "-timeout": true, "-count": true, "-fuzztime": true, "-shuffle": true, "-tags": true, "-o": true, "-C": true,
	"-v": false, "-race": false, "-short": false, "-benchmem": false,
}

// CheckGo says what there is not of what a go command names: packages, tests,
// benchmarks, and flags of the programs and tests it runs.
func (t Tree) CheckGo(words []string) error {
	if len(words) < 2 || !slices.Contains([]string{"run", "test", "doc", "build", "vet", "install"}, words[1]) {
		return nil // of the tool alone
	}
	var folders, passed []string
	patterns := map[string]string{}
	for rest := words[2:]; len(rest) > 0; rest = rest[1:] {
		name, value, set := strings.Cut(rest[0], "=")
		takes, known := toolFlags[name]
		switch {
		case len(folders) > 0 && words[1] == "run":
			passed = append(passed, rest[0])
		case known && takes && !set && len(rest) > 1:
			value, rest = rest[1], rest[1:]
			patterns[name] = value
		case known:
			patterns[name] = value
		case strings.HasPrefix(rest[0], "-"):
			passed = append(passed, rest[0])
		case strings.Contains(rest[0], "@") || !strings.HasPrefix(rest[0], "./"):
			return nil // another module's
		default:
			folders = append(folders, path.Clean(strings.TrimSuffix(rest[0], "...")))
		}
	}
	for _, f := range folders {
		if info, err := fs.Stat(t.Files, f); err != nil || !info.IsDir() {
			return fmt.Errorf("there is no package %s", f)
		}
	}
	if words[1] == "test" {
		return t.checkTests(folders, patterns, passed)
	}
	if len(passed) > 0 && words[1] == "run" {
		return t.checkDefined(folders[0], passed)
	}
	return nil
}

// checkTests looks for functions that -run, -bench and -fuzz would find, and for flags
// that tests define.
func (t Tree) checkTests(folders []string, patterns map[string]string, passed []string) error {
	var text strings.Builder
	for _, f := range folders {
		err := fs.WalkDir(t.Files, f, func(p string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(p, "_test.go") {
				return err
			}
			file, err := fs.ReadFile(t.Files, p)
			text.Write(file)
			return err
		})
		if err != nil {
			return err
		}
	}
	for name, kind := range map[string]string{"-run": "Test", "-bench": "Benchmark", "-fuzz": "Fuzz"} {
		want, _, _ := strings.Cut(patterns[name], "/")
		if want == "" || want == "^$" {
			continue
		}
		re, err := regexp.Compile(want)
		if err != nil {
			return fmt.Errorf("%s %s: %w", name, want, err)
		}
		found := false
		for _, m := range regexp.MustCompile(`(?m)^func (`+kind+`\w*)\(`).FindAllStringSubmatch(text.String(), -1) {
			found = found || re.MatchString(m[1])
		}
		if !found {
			return fmt.Errorf("%s %s finds nothing in %s", name, want, strings.Join(folders, " "))
		}
	}
	for _, p := range passed {
		name, _, _ := strings.Cut(strings.TrimLeft(p, "-"), "=")
		if !has(defines, text.String(), name) {
			return fmt.Errorf("no test in %s has the flag -%s", strings.Join(folders, " "), name)
		}
	}
	return nil
}

var treePath = regexp.MustCompile(`^(?:\./)?((?:adapter|autoscaler|dashboards|deploy|docs|exporter|gpu|internal|plan|report|sandbox)/[\w./*-]*[\w*/])$`)

// CheckPath says whether what looks like a path of the tree is one. Stars stand for
// any name.
func (t Tree) CheckPath(text string) error {
	m := treePath.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	found, err := fs.Glob(t.Files, strings.TrimSuffix(m[1], "/"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("there is no %s", m[1])
	}
	return err
}
