package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/release/gobuild"
	"github.com/gpuscale/gpuscale/internal/release/oci"
	"github.com/gpuscale/gpuscale/internal/release/vuln"
)

// tree is a small product with everything that a release takes from one.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                                   "module github.com/gpuscale/gpuscale\n\ngo 1.26\n",
		"small/go.go":                              "package main\n\nimport \"github.com/gpuscale/gpuscale/internal/buildinfo\"\n\nfunc main() { println(buildinfo.Get()) }\n",
		"internal/buildinfo/b.go":                  "package buildinfo\n\nvar version, commit string\n\nfunc Get() string { return version + \" \" + commit }\n",
		"LICENSE":                                  "ours\n",
		"CHANGELOG.md":                             "# Changelog\n\n## Unreleased\n\n- [CHANGE] later.\n\n## 0.1.0 / 2026-11-22\n\n- [FEATURE] small: it is there.\n",
		"deploy/chart/gpuscale/Chart.yaml":         "apiVersion: v2\nname: gpuscale\nversion: 0.0.0\nappVersion: none\n",
		"deploy/chart/gpuscale/templates/a.yaml":   "a: 1\n",
		"deploy/chart/gpuscale/.helmignore":        "x\n",
		"deploy/crds/b.yaml":                       "---\nkind: B\n",
		"deploy/crds/a.yaml":                       "kind: A\n",
		"dashboards/json/fleet.json":               "{}\n",
		"dashboards/json/embed.go":                 "package json\n",
		"dashboards/rules/recording.yaml":          "groups: []\n",
		"dashboards/rules/testdata/not-ours.yaml":  "groups: []\n",
		"dashboards/alerts/gpuscale-alerts.yaml":   "groups: []\n",
		"dashboards/alerts/testdata/not-ours.yaml": "groups: []\n",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "all"}} {
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.test"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=1790000000 +0000", "GIT_COMMITTER_DATE=1790000000 +0000", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func open(t *testing.T, dir string) *release {
	t.Helper()
	src, err := readSource(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	return &release{
		source: src, version: "0.1.0", out: filepath.Join(t.TempDir(), "dist"), arches: []string{runtime.GOARCH}, log: io.Discard,
		programs: []program{{short: "small", Program: gobuild.Program{Name: "gpuscale-small", Package: "./small"}, user: nobody}},
		// Nobody looks: what then stands in the release is part of the test.
		scan: vuln.Options{Tool: "/nowhere/govulncheck"},
	}
}

// contents are the files of a release with their bytes.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func untar(t *testing.T, data string) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			body, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name] = string(body)
		}
	}
}

// The whole of a release, from the same commit in two folders: every file is the
// same, and is what it says it is.
func TestMake(t *testing.T) {
	first := open(t, tree(t))
	if err := first.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := open(t, tree(t))
	if err := second.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, again := contents(t, first.out), contents(t, second.out)
	stem := "gpuscale-small-0.1.0-linux-" + runtime.GOARCH
	want := []string{
		"RELEASE_NOTES.md", "SHA256SUMS", "VULNERABILITIES.txt", "gpuscale-0.1.0.tgz", "gpuscale-crds-0.1.0.yaml",
		"gpuscale-dashboards-0.1.0.tar.gz", stem + ".cdx.json", stem + ".tar.gz",
	}
	var names []string
	for name, data := range got {
		names = append(names, name)
		if again[name] != data {
			t.Errorf("%s is other bytes when made in another folder", name)
		}
	}
	if names = sorted(names); !slices.Equal(names, want) {
		t.Errorf("files: got %v, want %v", names, want)
	}

	t.Run("notes", func(t *testing.T) {
		if n := got["RELEASE_NOTES.md"]; !strings.HasPrefix(n, "# gpuscale 0.1.0 / 2026-11-22\n") || !strings.Contains(n, "it is there") || strings.Contains(n, "later") {
			t.Error(n)
		}
	})
	t.Run("sums", func(t *testing.T) {
		cmd := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
		cmd.Dir = first.out
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Count(string(out), ": OK\n") != len(want)-2 {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("program", func(t *testing.T) {
		files := untar(t, got[stem+".tar.gz"])
		file := filepath.Join(t.TempDir(), "gpuscale-small")
		if err := os.WriteFile(file, []byte(files[stem+"/gpuscale-small"]), 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(file).CombinedOutput()
		if err != nil || string(out) != "0.1.0 "+first.source.commit+"\n" {
			t.Errorf("it says %q, %v", out, err)
		}
		if files[stem+"/LICENSE"] != "ours\n" || !strings.Contains(files[stem+"/THIRD-PARTY-LICENSES.txt"], "The Go Authors") {
			t.Error("licences are missing")
		}
	})
	t.Run("SBOM", func(t *testing.T) {
		var bom struct {
			Metadata struct {
				Component struct{ Name, Version string }
			}
		}
		if err := json.Unmarshal([]byte(got[stem+".cdx.json"]), &bom); err != nil {
			t.Fatal(err)
		}
		if c := bom.Metadata.Component; c.Name != "gpuscale-small" || c.Version != "0.1.0" {
			t.Errorf("it is about %+v", c)
		}
	})
	t.Run("chart", func(t *testing.T) {
		files := untar(t, got["gpuscale-0.1.0.tgz"])
		if c := files["gpuscale/Chart.yaml"]; c != "apiVersion: v2\nname: gpuscale\nversion: \"0.1.0\"\nappVersion: \"0.1.0\"\n" {
			t.Error(c)
		}
		if len(files) != 2 {
			t.Errorf("files: %v", files)
		}
	})
	t.Run("CRDs", func(t *testing.T) {
		if c := got["gpuscale-crds-0.1.0.yaml"]; c != "---\nkind: A\n---\nkind: B\n" {
			t.Error(c)
		}
	})
	t.Run("dashboards", func(t *testing.T) {
		if files := untar(t, got["gpuscale-dashboards-0.1.0.tar.gz"]); len(files) != 3 {
			t.Errorf("files: %v", files)
		}
	})
	t.Run("nobody looked", func(t *testing.T) {
		if v := got["VULNERABILITIES.txt"]; !strings.Contains(v, "NOT CHECKED in gpuscale-small linux/"+runtime.GOARCH) {
			t.Error(v)
		}
	})
}

// What stops a release, before anything is compiled.
func TestStops(t *testing.T) {
	good := tree(t)
	write := func(name, text string) func(*testing.T, *release) {
		return func(t *testing.T, r *release) {
			if err := os.WriteFile(filepath.Join(r.source.dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		spoil func(*testing.T, *release)
		want  string
	}{
		"no section":      {func(_ *testing.T, r *release) { r.version = "0.2.0" }, `no section "0.2.0"`},
		"a bad changelog": {write("CHANGELOG.md", "## 0.1.0\n"), "line 1"},
		"no CRDs":         {func(_ *testing.T, r *release) { os.RemoveAll(filepath.Join(r.source.dir, crdsDir)) }, crdsDir},
		"no chart":        {func(_ *testing.T, r *release) { os.RemoveAll(filepath.Join(r.source.dir, chartDir)) }, chartDir},
		"a strange chart": {write(chartDir+"/Chart.yaml", "version: 1\n"), "0 lines appVersion"},
		"no rules": {func(_ *testing.T, r *release) {
			os.Remove(filepath.Join(r.source.dir, "dashboards/rules/recording.yaml"))
		}, "dashboards/rules has no file"},
		"a foreign folder":    {func(_ *testing.T, r *release) { r.out = r.source.dir }, "holds no release"},
		"it does not compile": {write("small/go.go", "package main\n\nfunc main() { x }\n"), "undefined: x"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			r := open(t, dir)
			c.spoil(t, r)
			if err := r.make(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, err := os.Stat(filepath.Join(r.source.dir, "go.mod")); err != nil {
				t.Errorf("the tree was harmed: %v", err)
			}
		})
	}
}

// TestCompilersComeFirst: a compiler that is not there stops a release and images
// before anything is touched, and the error says what to install and what to leave out.
func TestCompilersComeFirst(t *testing.T) {
	t.Setenv("CC_arm64", "/nowhere/cc")
	r := open(t, tree(t))
	r.arches = []string{runtime.GOARCH, "arm64"}
	if runtime.GOARCH == "arm64" {
		r.arches = r.arches[1:]
	}
	r.programs = append(r.programs, program{short: "bound", Program: gobuild.Program{Name: "gpuscale-bound", Package: "./small", Cgo: true}})
	want := []string{"no C compiler for bound: linux/arm64: /nowhere/cc", "libc6-dev-arm64-cross", "ONLY=small the programs"}
	if len(r.arches) == 2 {
		want = append(want, "ARCHES="+runtime.GOARCH+" leaves")
	}
	certs := filepath.Join(t.TempDir(), "certs")
	if err := os.WriteFile(certs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"release": r.make(t.Context()), "images": r.images(t.Context(), t.TempDir(), certs)} {
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: want %q, got %v", what, w, err)
			}
		}
		if err != nil && strings.Count(err.Error(), "\n") > 1 {
			t.Errorf("%s: more than two lines: %v", what, err)
		}
	}
	if _, err := os.Stat(r.out); err == nil {
		t.Error("something was written")
	}
	r.programs = r.programs[:1]
	if err := r.compilers(t.Context()); err != nil {
		t.Errorf("nothing needs a compiler: %v", err)
	}
}

func TestSource(t *testing.T) {
	dir := tree(t)
	if err := os.WriteFile(filepath.Join(dir, "new"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readSource(dir, false); err == nil || !strings.Contains(err.Error(), "?? new") {
		t.Errorf("an uncommitted file: got %v", err)
	}
	src, err := readSource(dir, true)
	if err != nil || src.at.Unix() != 1_790_000_000 || len(src.commit) != 40 {
		t.Errorf("got %+v, %v", src, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if src, err = readSource(dir, true); err != nil || src.at.Unix() != 1_700_000_000 {
		t.Errorf("got %+v, %v", src, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "today")
	if _, err = readSource(dir, true); err == nil {
		t.Error("SOURCE_DATE_EPOCH=today passes")
	}
	if _, err = readSource(t.TempDir(), true); err == nil || !strings.Contains(err.Error(), "git rev-parse") {
		t.Errorf("no repository: got %v", err)
	}
}

// A vulnerability that is known stops a release, unless somebody says why not.
func TestVulnerable(t *testing.T) {
	dir := t.TempDir()
	tool, db := filepath.Join(dir, "govulncheck"), filepath.Join(dir, "db")
	if err := os.MkdirAll(filepath.Join(db, "index"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{tool: "#!/bin/sh\necho GO-0000-0001\nexit 3\n", filepath.Join(db, "index", "db.json"): "{}"} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := &release{scan: vuln.Options{Tool: tool, DB: "file://" + db}, log: io.Discard}
	b := built{program: program{Program: gobuild.Program{Name: "gpuscale-small"}}, arch: "amd64", file: "x"}
	if err := r.scanned(t.Context(), b); err == nil || !strings.Contains(err.Error(), "GO-0000-0001") {
		t.Errorf("got %v", err)
	}
	r.accept = "not reachable from outside"
	if err := r.scanned(t.Context(), b); err != nil || !strings.Contains(r.said.String(), "released all the same: not reachable") {
		t.Errorf("got %v: %s", err, r.said.String())
	}

	// The command of `make vuln`.
	t.Setenv("GOVULNDB", "file://"+db)
	if err := run(t.Context(), []string{"vuln", "-govulncheck", tool, "./..."}, io.Discard); err == nil {
		t.Error("found, and no failure")
	}
	t.Setenv("GOVULNDB", "file:///nowhere")
	var said bytes.Buffer
	if err := run(t.Context(), []string{"vuln", "-govulncheck", tool, "./..."}, &said); err != nil || !strings.Contains(said.String(), "NOT CHECKED") {
		t.Errorf("got %v: %s", err, said.String())
	}
	if err := run(t.Context(), []string{"vuln", "-govulncheck", tool, "-require", "./..."}, io.Discard); err == nil {
		t.Error("required, not checked, and no failure")
	}
}

func TestVersions(t *testing.T) {
	for in, want := range map[string]string{
		"0.1.0": "0.1.0", "v1.2.3-rc.1": "1.2.3-rc.1", "": "", "1.2": "", "9fca3ba-dirty": "", "1.2.3+meta": "", "1.2.3 ": "",
	} {
		if got, err := parseVersion(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
}

func TestImages(t *testing.T) {
	certs := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(certs, []byte("CA"), 0o644); err != nil {
		t.Fatal(err)
	}
	first := open(t, tree(t))
	if err := first.images(t.Context(), "", certs); err != nil {
		t.Fatal(err)
	}
	// index.json, oci-layout, and as blobs: index, manifest, configuration, layer.
	if files := contents(t, filepath.Join(first.out, "gpuscale-small")); len(files) != 6 {
		t.Errorf("%d files", len(files))
	}
	// Again into the same folder, and never over something else.
	again := oci.Spec{Name: "small", Platforms: []oci.Platform{{Arch: "amd64"}}}
	if err := first.writeImage(again, "gpuscale-small"); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(first.out, "gpuscale-small", "oci-layout")); err != nil {
		t.Fatal(err)
	}
	if err := first.writeImage(again, "gpuscale-small"); err == nil || !strings.Contains(err.Error(), "is no OCI layout") {
		t.Errorf("got %v", err)
	}
	first.programs[0].Cgo = true
	if err := first.images(t.Context(), "", certs); err == nil || !strings.Contains(err.Error(), "needs a base with glibc") {
		t.Errorf("got %v", err)
	}
}

// What is linked on a newer Debian than the base's does not start in the image.
func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "images", "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	debian := regexp.MustCompile(`(?m)^(?:ARG GLIBC_BASE=|FROM .*golang:).*(bookworm).*$`).FindAllStringSubmatch(string(text), -1)
	if len(debian) != 2 {
		t.Errorf("the builder and the base with glibc are not both of the Debian that gobuild.NewestGlibc (%s) is of: %v", gobuild.NewestGlibc, debian)
	}
}

func TestCommandLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                            "usage:",
		"nonsense":                    "unknown command",
		"make":                        `-version ""`,
		"image -version 0.1":          `-version "0.1"`,
		"make -version 0.1.0 -only x": "no such program",
		"program -program report":     "-o are required",
		"program -program report,adapter -version 0.1.0 -o /nowhere/x": "one program",
		"program -program report -o /nowhere/x":                        `-version ""`,
	} {
		t.Run(line, func(t *testing.T) {
			if err := run(t.Context(), strings.Fields(line), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
