package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/release/oci"
	"github.com/gpuscale/gpuscale/internal/release/pack"
)

// What follows compiles the real programs and takes minutes.
// GPUSCALE_RELEASE_TOOLS is the folder of crane and helm; make release-check sets it.
func tools(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("GPUSCALE_RELEASE_TOOLS")
	if dir == "" {
		t.Skip("GPUSCALE_RELEASE_TOOLS is not set: make release-check sets it, and takes minutes")
	}
	return dir
}

func real(t *testing.T, only string, arches ...string) *release {
	t.Helper()
	src, err := readSource(filepath.Join("..", ".."), true)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := choose(programs, only)
	if err != nil {
		t.Fatal(err)
	}
	return &release{source: src, version: "0.0.0-check", snapshot: true, out: filepath.Join(t.TempDir(), "out"), arches: arches, programs: chosen, log: t.Output()}
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The exporter (cgo, the C linker: the hardest to make twice) from a copy of the
// tree in another folder, with nothing compiled before: the same bytes.
func TestRealProgramTwice(t *testing.T) {
	tools(t)
	first := real(t, "exporter", runtime.GOARCH)
	a, err := first.build(t.Context(), t.TempDir(), first.programs[0], runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	second := real(t, "exporter", runtime.GOARCH)
	second.source.dir = filepath.Join(t.TempDir(), "elsewhere")
	copyTree(t, first.source.dir, second.source.dir)
	t.Setenv("GOCACHE", t.TempDir())
	b, err := second.build(t.Context(), t.TempDir(), second.programs[0], runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.data, b.data) {
		t.Error("two builds of the exporter differ")
	}

	// Its SBOM has the modules that go finds in it, and the standard library.
	bom, err := first.sbom(a)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(bom, &doc); err != nil {
		t.Fatal(err)
	}
	inside := map[string]bool{}
	for _, c := range doc.Components {
		inside[c.Name+" "+c.Version] = true
	}
	found := 1
	for line := range strings.Lines(output(t, "go", "version", "-m", a.file)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "dep" {
			found++
			if !inside[f[1]+" "+f[2]] {
				t.Errorf("%s %s is not in the SBOM", f[1], f[2])
			}
		}
	}
	if found != len(inside) || found < 20 {
		t.Errorf("%d modules in the SBOM, go finds %d", len(inside), found)
	}
}

// copyTree copies what git knows or would know of.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	for name := range strings.SplitSeq(output(t, "git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		data, err := os.ReadFile(filepath.Join(from, name))
		if name == "" || os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Images go to a registry, come back and run: with nothing of this machine in
// them but, for those with cgo, its glibc, which stands for a base image.
func TestRealImages(t *testing.T) {
	crane := filepath.Join(tools(t), "crane")
	glibc := filepath.Join(t.TempDir(), "base")
	writeGlibc(t, glibc)
	const certs = "/etc/ssl/certs/ca-certificates.crt"
	static := real(t, "report", "amd64", "arm64")
	if err := static.images(t.Context(), "", certs); err != nil {
		t.Fatal(err)
	}
	cgo := real(t, "exporter", runtime.GOARCH)
	if err := cgo.images(t.Context(), glibc, certs); err != nil {
		t.Fatal(err)
	}
	registry := serve(t, crane)
	for _, c := range []struct {
		*release
		user uint32
	}{{static, 65532}, {cgo, 0}} {
		name := c.programs[0].Name
		ref := registry + "/" + name + ":" + c.version
		output(t, crane, "push", "--insecure", filepath.Join(c.out, name), ref)
		for _, arch := range c.arches {
			output(t, crane, "validate", "--insecure", "--remote", ref, "--platform", "linux/"+arch)
			if arch != runtime.GOARCH {
				continue
			}
			root := t.TempDir()
			tarball := filepath.Join(t.TempDir(), "fs.tar")
			output(t, crane, "export", "--insecure", "--platform", "linux/"+arch, ref, tarball)
			output(t, "tar", "-xf", tarball, "-C", root)
			if os.Getuid() != 0 {
				t.Log("not run: chroot needs root")
				continue
			}
			if err := os.Chmod(root, 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("/"+name, "version", "-o", "json")
			cmd.Dir, cmd.Env = "/", []string{}
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
			out, err := cmd.Output()
			var got buildinfo.Info
			if err != nil || json.Unmarshal(out, &got) != nil {
				t.Fatalf("%s in its image: %v: %s", name, err, out)
			}
			want := buildinfo.Info{Program: name, Version: c.version, Commit: c.source.commit, Go: runtime.Version(), Platform: "linux/" + arch}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
	}
}

// writeGlibc makes a base of this machine's C library, where a program that
// needs one looks for it.
func writeGlibc(t *testing.T, dir string) {
	t.Helper()
	var files []pack.File
	for line := range strings.Lines(output(t, "ldd", "/bin/sh")) {
		for _, field := range strings.Fields(line) {
			if !strings.HasPrefix(field, "/") {
				continue
			}
			data, err := os.ReadFile(field)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, pack.File{Name: strings.TrimPrefix(field, "/"), Mode: 0o755, Data: data})
		}
	}
	r := &release{out: filepath.Dir(dir), log: t.Output()}
	spec := oci.Spec{Name: "base", Created: time.Unix(0, 0), Platforms: []oci.Platform{{Arch: runtime.GOARCH, Files: files}}}
	if err := r.writeImage(spec, filepath.Base(dir)); err != nil {
		t.Fatal(err)
	}
}

// serve runs crane's registry in memory until the test ends, and returns its address.
func serve(t *testing.T, crane string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, crane, "registry", "serve", "--address", "127.0.0.1:0")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if _, port, ok := strings.Cut(lines.Text(), "serving on port "); ok {
			go func() {
				for lines.Scan() { // or it would wait for us
				}
			}()
			return fmt.Sprintf("127.0.0.1:%s", strings.TrimSpace(port))
		}
	}
	t.Fatalf("the registry does not say where it serves: %v", lines.Err())
	return ""
}

// The packed chart is one that Helm takes, under the release's version.
func TestRealChart(t *testing.T) {
	helm := filepath.Join(tools(t), "helm")
	if _, err := os.Stat(helm); err != nil {
		t.Skip("helm is not there: make chart-tools builds it")
	}
	r := real(t, "report", runtime.GOARCH)
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := r.chart(); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(r.out, "gpuscale-0.0.0-check.tgz")
	shown := output(t, helm, "show", "chart", packed)
	if !strings.Contains(shown, "version: 0.0.0-check") || !strings.Contains(shown, "appVersion: 0.0.0-check") {
		t.Error(shown)
	}
	if rendered := output(t, helm, "template", "x", packed); !strings.Contains(rendered, `image: "gpuscale-adapter:0.0.0-check"`) {
		t.Error("what it installs is not of its version")
	}
	output(t, helm, "lint", packed)
}
