package layers

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// listed is the part of `go list -json` the rule needs.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
	Error      *struct{ Err string }
}

func TestLayers(t *testing.T) {
	packages := list(t)
	standard := map[string]bool{}
	for _, p := range packages {
		if p.Standard {
			standard[p.ImportPath] = true
		}
	}
	checked := 0
	for _, p := range packages {
		rel, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		checked++
		for _, problem := range check(rel, p, standard) {
			t.Error(problem)
		}
	}
	if checked < 10 {
		t.Fatalf("only %d packages of gpuscale were listed: the rule checked nothing", checked)
	}
}

// TestLayersCanFail shows that the rule finds violations.
func TestLayersCanFail(t *testing.T) {
	standard := map[string]bool{"time": true}
	cases := map[string]listed{
		"gpu/mig":       {Imports: []string{"k8s.io/api/core/v1"}},
		"plan/pack":     {Imports: []string{module + "plan"}, Deps: []string{module + "plan"}},
		"adapter/cache": {Deps: []string{module + "autoscaler/act"}},
		"exporter/pods": {Deps: []string{"k8s.io/client-go/informers/core/v1"}},
		"novel/package": {},
	}
	for rel, p := range cases {
		if len(check(rel, p, standard)) == 0 {
			t.Errorf("%s importing %v, %v: no problem found", rel, p.Imports, p.Deps)
		}
	}
	if got := check("gpu/mig", listed{Imports: []string{"time"}, Deps: []string{module + "gpu"}}, standard); len(got) != 0 {
		t.Errorf("a legal package was refused: %v", got)
	}
}

// check returns the violations of one package of gpuscale.
func check(rel string, p listed, standard map[string]bool) []string {
	layer, ok := layerOf(rel)
	if !ok {
		return []string{rel + ": no layer in internal/layers/table.go; a new package needs one"}
	}
	var problems []string
	for _, dep := range p.Deps {
		dep, ours := strings.CutPrefix(dep, module)
		if ours && !allowed(dep, layer.Ours) && !within(dep, rel) && dep != layer.Path {
			problems = append(problems, rel+" depends on "+dep+": "+layer.Why)
		}
	}
	for _, imp := range p.Imports {
		if standard[imp] || imp == "C" || strings.HasPrefix(imp, module) {
			continue
		}
		if !outside(imp, layer.Outside) {
			problems = append(problems, rel+" imports "+imp+": "+layer.Why)
		}
	}
	for _, ban := range Bans {
		if owned(rel, ban.Owners) {
			continue
		}
		for _, dep := range p.Deps {
			if strings.HasPrefix(dep, ban.Dependency) {
				problems = append(problems, rel+" links "+dep+": "+ban.Why)
				break
			}
		}
	}
	return problems
}

func layerOf(rel string) (Layer, bool) {
	best, found := Layer{}, false
	for _, f := range Table {
		if within(rel, f.Path) && (!found || len(f.Path) > len(best.Path)) {
			best, found = f, true
		}
	}
	return best, found
}

func within(rel, folder string) bool {
	return folder == "" || rel == folder || strings.HasPrefix(rel, folder+"/")
}

func allowed(rel string, folders []string) bool {
	for _, f := range folders {
		if within(rel, f) {
			return true
		}
	}
	return false
}

func owned(rel string, owners []string) bool {
	for _, o := range owners {
		// "exporter" owns only the program at its root, and exporter/dcgm.
		if rel == o || (o != "exporter" && within(rel, o)) {
			return true
		}
	}
	return false
}

func outside(imp string, prefixes []string) bool {
	for _, p := range prefixes {
		if p == "*" || imp == p || strings.HasPrefix(imp, strings.TrimSuffix(p, "/")+"/") {
			return true
		}
	}
	return false
}

// list returns every package of the module with all it depends on.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps,Error", "./...")
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages
		case err != nil:
			t.Fatalf("reading go list: %v", err)
		case p.Error != nil:
			t.Fatalf("go list: %s: %s", p.ImportPath, p.Error.Err)
		}
		packages = append(packages, p)
	}
}
