package build

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// ownGo links our programs, or one file, and notes with which settings.
func ownGo(calls string) string {
	return `case "$1" in
build)
  echo "build CGO_ENABLED=$CGO_ENABLED $*" >> ` + calls + `
  while [ "$1" != -o ]; do shift; done
  case "$2" in */) for p in exporter adapter autoscaler agent report dashboards; do echo p > "$2/$p"; done ;; *) echo p > "$2" ;; esac ;;
esac`
}

func TestProgramsAreCompiledEachTimeInPlace(t *testing.T) {
	o, out := checkout(t)
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, ownGo(calls))
	for _, prepared := range []string{"", "", "1"} {
		t.Setenv(PreparedEnv, prepared)
		dir, err := Programs(context.Background(), o)
		require.NoError(t, err)
		for _, name := range []string{"gpuscale-exporter", "gpuscale-adapter", "gpuscale-autoscaler", "gpuscale-agent", "gpuscale-report", "gpuscale-dashboards"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				t.Error(err)
			}
		}
	}
	text, _ := os.ReadFile(calls)
	if n := strings.Count(string(text), "build CGO_ENABLED=1 "); n != 2 {
		t.Errorf("want two builds with cgo, got %d:\n%s", n, text)
	}
	if out.Len() > 0 {
		t.Errorf("what takes no time is not worth a word: %q", out)
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

// Otherwise the Makefile's first step could not report that there is no network.
func TestBootstrapNeedsNothingDownloaded(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./bootstrap").Output()
	require.NoError(t, err)
	for _, pkg := range strings.Fields(string(out)) {
		if !strings.HasPrefix(pkg, "github.com/gpuscale/gpuscale/") {
			t.Errorf("it imports %s", pkg)
		}
	}
	if len(out) == 0 {
		t.Error("nothing was listed")
	}
}
