package build

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

// checkout makes a small one with both nested modules, and returns options
// for it.
func checkout(t *testing.T) (Options, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module github.com/gpuscale/gpuscale\n")
	for _, module := range []string{controlPlane.module, prometheus.module} {
		write(t, filepath.Join(root, module, "go.mod"), "module x\n")
		write(t, filepath.Join(root, module, "go.sum"), "")
		write(t, filepath.Join(root, module, "main.go"), "package main\n")
	}
	var out bytes.Buffer
	return Options{Root: root, Cache: filepath.Join(root, "cache"), Out: &out}, &out
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o755))
}

// fakeGo puts a shell script in the place of go on PATH.
func fakeGo(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go"), "#!/bin/sh\n"+script)
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

// goodGo "links" whatever it is asked to; it writes a line to calls each time it
// builds.
func goodGo(calls string) string {
	return `case "$1" in
build)
  echo build >> ` + calls + `
  while [ "$1" != -o ]; do shift; done
  echo one >&2; echo two >&2
  case "$2" in */) echo p > "$2/prometheus"; echo p > "$2/promtool" ;; *) sleep 0.3; echo cp > "$2" ;; esac ;;
esac`
}

func TestKeyFollowsWhatTheBinaryDependsOn(t *testing.T) {
	o, _ := checkout(t)
	key := func() string {
		k, err := controlPlane.key(o.Root)
		require.NoError(t, err)
		return k
	}
	dir := filepath.Join(o.Root, controlPlane.module)
	first := key()
	if key() != first {
		t.Error("the key changes by itself")
	}
	for _, same := range []string{"README.md", "main_test.go", "prometheus/tools.go"} {
		write(t, filepath.Join(dir, same), "package x")
		if key() != first {
			t.Errorf("%s is not part of the binary, but changes the key", same)
		}
	}
	seen := map[string]string{first: "the original"}
	for _, other := range []string{"go.mod", "go.sum", "main.go", "new.go"} {
		write(t, filepath.Join(dir, other), "changed\n")
		if was, ok := seen[key()]; ok {
			t.Errorf("the key after changing %s is that of %s", other, was)
		}
		seen[key()] = other
	}
	changed := controlPlane
	changed.args = append([]string{"-race"}, changed.args...)
	if k, _ := changed.key(o.Root); k == key() {
		t.Error("other build flags, same key")
	}
}

func TestBuildsOnceAndKeeps(t *testing.T) {
	o, out := checkout(t)
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, goodGo(calls))
	for range 2 {
		p, err := All(context.Background(), o)
		require.NoError(t, err)
		for _, file := range []string{p.Program("etcd"), p.Program("kubectl"), p.Prometheus, p.Promtool} {
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
	}
	if got, _ := os.ReadFile(calls); string(got) != "build\nbuild\n" {
		t.Errorf("want one build of each of the two, got %q", got)
	}
	if !strings.Contains(out.String(), "compiling the control plane, which takes minutes the first time\n") {
		t.Errorf("progress: %q", out)
	}
}

func TestConcurrentBuildsShareOneLock(t *testing.T) {
	o, _ := checkout(t)
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, goodGo(calls))
	var all sync.WaitGroup
	outs := make([]bytes.Buffer, 3)
	for i := range outs {
		all.Go(func() {
			o := o
			o.Out = &outs[i]
			if _, err := ControlPlane(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got, _ := os.ReadFile(calls); string(got) != "build\n" {
		t.Errorf("want one build, got %q", got)
	}
	waited := 0
	for i := range outs {
		if strings.Contains(outs[i].String(), "another sandbox is compiling the control plane, waiting for it\n") {
			waited++
		}
	}
	if waited != 2 {
		t.Errorf("%d of 3 reported that they wait, want 2", waited)
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	o, _ := checkout(t)
	// A build that was killed has left this.
	key, _ := controlPlane.key(o.Root)
	old := filepath.Join(o.Cache, "sandbox", "controlplane-"+key+".tmp-1")
	write(t, filepath.Join(old, "controlplane"), "half")

	fakeGo(t, `case "$1" in build) while [ "$1" != -o ]; do shift; done; echo half > "$2"; echo 'x.go:1:1: no' >&2; exit 1;; esac`)
	if _, err := ControlPlane(context.Background(), o); err == nil {
		t.Fatal("no error")
	}
	left, _ := filepath.Glob(filepath.Join(o.Cache, "sandbox", "controlplane-*"))
	if len(left) != 1 || filepath.Ext(left[0]) != ".lock" {
		t.Errorf("left behind: %v", left)
	}
}

// TestErrorOfGo: go's last messages and what the machine needs are in the error.
func TestErrorOfGo(t *testing.T) {
	o, _ := checkout(t)
	fakeGo(t, `echo 'go: downloading k8s.io/kubernetes v1.37.1' >&2; echo k8s.io/api/core/v1 >&2; echo './main.go:3:1: no space left on device' >&2; exit 1`)
	_, err := ControlPlane(context.Background(), o)
	if want := "compiling the control plane: exit status 1\n  ./main.go:3:1: no space left on device\n" + needs; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := ControlPlane(context.Background(), o); err == nil || !strings.Contains(err.Error(), "go 1.26 or newer: not found") {
		t.Errorf("a build without Go: %v", err)
	}
}

func TestProgressWords(t *testing.T) {
	p := &progress{title: "the control plane"}
	var messages []string
	for _, line := range []string{"go: downloading k8s.io/api v0.37.1", "k8s.io/api/core/v1", "k8s.io/api/apps/v1", "# k8s.io/api", "./x.go:1:1: no", ""} {
		if p.line(line) {
			messages = append(messages, line)
		}
	}
	if got, want := p.text(), "compiling the control plane: 1 modules downloaded, 2 packages compiled"; got != want || len(messages) != 3 {
		t.Errorf("%s, %q; want %s", got, messages, want)
	}
}

// TestVersions: the binaries report the version that they are built from, and documents and tests
// name prometheus-adapter's, which is compared as it is published.
func TestVersions(t *testing.T) {
	root, err := FindRoot()
	require.NoError(t, err)
	for module, want := range map[string]string{
		controlPlane.module: "k8s.io/kubernetes " + kubernetesVersion, kubelet.module: "k8s.io/kubernetes " + kubernetesVersion,
		prometheusAdapter.module: "require sigs.k8s.io/prometheus-adapter v0.12.0",
	} {
		mod, err := os.ReadFile(filepath.Join(root, module, "go.mod"))
		require.NoError(t, err)
		if !strings.Contains(string(mod), want+"\n") || module == prometheusAdapter.module && strings.Contains(string(mod), "\nreplace ") {
			t.Errorf("%s/go.mod does not have %q, or replaces something", module, want)
		}
	}
}
