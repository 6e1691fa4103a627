package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

// TestGeneratedFilesAreInStep: what is committed is what would be written.
func TestGeneratedFilesAreInStep(t *testing.T) {
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		have, err := os.ReadFile(filepath.Join(root, chartDir, name))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is out of date (make chart-generate): %v", name, err)
		}
	}
	chart := filepath.Join(root, chartDir)
	err = filepath.WalkDir(filepath.Join(chart, "files"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(chart, path)
		if _, wanted := files[filepath.ToSlash(name)]; !wanted {
			t.Errorf("%s comes from nowhere", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWriteRemovesWhatIsNoMore: a board that is gone must not be installed for ever.
func TestWriteRemovesWhatIsNoMore(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{chartDir, "deploy/crds"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(root, name))); err != nil {
			t.Fatal(err)
		}
	}
	stale := filepath.Join(dir, chartDir, "files/dashboards/gone.json")
	if err := os.WriteFile(stale, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); err == nil {
		t.Error("it is still there")
	}
}

// TestEveryValueIsDescribed: a value without words is a riddle, but for those whose
// name says all.
func TestEveryValueIsDescribed(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := parseValues(text)
	if err != nil {
		t.Fatal(err)
	}
	// Kubernetes' own words, said nowhere else either.
	plain := map[string]bool{}
	for _, key := range strings.Fields(`repository tag digest port affinity nodeSelector tolerations priorityClassName resources updateStrategy
		podAnnotations podLabels extraArgs extraEnv extraVolumes extraVolumeMounts name create annotations enabled spec runtimeClassName
		pullPolicy servicePort namespace configMap currency storageClassName size topologySpreadConstraints labels interval prometheusNamespaceSelector labelKey labelValue`) {
		plain[key] = true
	}
	described := 0
	for _, v := range values {
		for _, l := range append(leaves(v.children), v) {
			if l.help != "" {
				described++
			} else if l.children == nil && !plain[l.key] {
				t.Errorf("%s has no description", l.path)
			}
		}
	}
	if described < 60 {
		t.Errorf("only %d are described", described)
	}
}

func TestBadValues(t *testing.T) {
	for _, c := range []struct{ values, want string }{
		{"a: []", "a: a list: say # @items"},
		{"a: {}", "a: an empty object: say # @free"},
		{"a: null", "a: null has no type"},
		{"# @itms string\na: []", "a: @itms string: want @free"},
		{"# @items int\na: []", "want @items string"},
		{"# @min x\na: 1", "a: strconv"},
		{"b: {c: []}\na: []", "b.c: a list"},
		{"[]", "want an object"},
		{"a: &x 1\nb: *x", "b: an alias"},
	} {
		if _, err := parseValues([]byte(c.values)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: want %q, got %v", c.values, c.want, err)
		}
	}
}

// FuzzValues: whatever stands in values.yaml, there is an error or a schema, never
// a panic.
func FuzzValues(f *testing.F) {
	text, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(text), "a: []", "# @enum x|y\na: x", "a: {b: 1.5}", "a: 2020-01-01", "a: !!binary aGk="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseValues([]byte(text))
		if err != nil {
			return
		}
		readme(values)
		_, _ = schemaJSON(values) // a default of a type that schemas do not know is an error
	})
}
