package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// checkout creates a small checkout with both nested modules, and returns build options for it.
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

// fakeGo puts a shell script named go on PATH.
func fakeGo(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go"), "#!/bin/sh\n"+script)
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

// TestProgramsAreCompiledEachTime: every build calls Go, which knows what has changed, unless make prepare
// has already built everything.
func TestProgramsAreCompiledEachTime(t *testing.T) {
	o, out := checkout(t)
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, `case "$1" in
build)
  echo "build CGO_ENABLED=$CGO_ENABLED $*" >> `+calls+`
  while [ "$1" != -o ]; do shift; done
  for p in exporter adapter autoscaler agent report dashboards; do echo p > "$2/$p"; done ;;
esac`)
	for _, prepared := range []string{"", "", "1"} {
		t.Setenv(PreparedEnv, prepared)
		dir, err := Programs(context.Background(), o)
		require.NoError(t, err)
		for name := range programs.links {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
	text, _ := os.ReadFile(calls)
	if n := strings.Count(string(text), "build CGO_ENABLED=1 "); n != 2 {
		t.Errorf("want two builds with cgo, got %d:\n%s", n, text)
	}
	if want := "compiling gpuscale's programs, which takes minutes the first time\n"; out.String() != want {
		t.Errorf("progress %q, want %q: what has not changed is not worth a word", out, want)
	}
}

func TestCancelEndsTheCompiler(t *testing.T) {
	for name, compile := range map[string]func(context.Context, Options) error{
		"the programs":      func(ctx context.Context, o Options) error { _, err := Programs(ctx, o); return err },
		"the control plane": func(ctx context.Context, o Options) error { _, err := ControlPlane(ctx, o); return err },
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := checkout(t)
			file := filepath.Join(t.TempDir(), "pid")
			fakeGo(t, `case "$1" in build) echo $$ > `+file+`; exec sleep 600 ;; esac`)
			ctx, cancel := context.WithCancel(t.Context())
			pid := make(chan int, 1)
			go func() {
				defer cancel()
				_ = await.Until(t.Context(), func(context.Context) error {
					text, err := os.ReadFile(file)
					if err != nil {
						return err
					}
					n, err := strconv.Atoi(strings.TrimSpace(string(text)))
					if err == nil {
						pid <- n
					}
					return err
				})
			}()
			if err := compile(ctx, o); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
				t.Errorf("got %v", err)
			}
			if err := syscall.Kill(<-pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the compiler is still there: %v", err)
			}
		})
	}
}

// TestErrorOfGo: the error contains Go's last messages and the requirements of the machine.
func TestErrorOfGo(t *testing.T) {
	o, _ := checkout(t)
	fakeGo(t, `echo 'go: downloading k8s.io/kubernetes v1.37.1' >&2; echo k8s.io/api/core/v1 >&2; echo './main.go:3:1: no space left on device' >&2; exit 1`)
	_, err := ControlPlane(context.Background(), o)
	if want := "compiling the control plane: exit status 1\n  ./main.go:3:1: no space left on device\n" + needs; err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := ControlPlane(context.Background(), o); err == nil || !strings.Contains(err.Error(), "executable file not found") {
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
	if got, want := p.text(70*time.Second), "compiling the control plane: 1 modules downloaded, 2 packages compiled, 1m10s"; got != want || len(messages) != 3 {
		t.Errorf("%s, %q; want %s", got, messages, want)
	}
}

// TestVersions: the binaries report the version that they are built from. Documentation and tests name the
// version of prometheus-adapter, which is compared unmodified.
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
