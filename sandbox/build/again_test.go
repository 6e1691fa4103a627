package build

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ownGo links our programs, or one file, and notes with which settings.
func ownGo(calls string) string {
	return `case "$1" in
list) ;;
build)
  echo "build CGO_ENABLED=$CGO_ENABLED $*" >> ` + calls + `
  while [ "$1" != -o ]; do shift; done
  case "$2" in */) for p in exporter adapter autoscaler report; do echo p > "$2/$p"; done ;; *) echo p > "$2" ;; esac ;;
esac`
}

func TestProgramsAreCompiledEachTimeInPlace(t *testing.T) {
	o, out := checkout(t)
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, ownGo(calls))
	for range 2 {
		dir, err := Programs(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"gpuscale-exporter", "gpuscale-adapter", "gpuscale-autoscaler", "gpuscale-report"} {
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

func TestSandboxGoesWhereTheMakefileSays(t *testing.T) {
	o, _ := checkout(t)
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, ownGo(calls))
	file := filepath.Join(t.TempDir(), "bin", "gpuscale-sandbox")
	if err := Sandbox(context.Background(), o, file, "-X a=b"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if text, _ := os.ReadFile(calls); !strings.Contains(string(text), "-ldflags -X a=b ") {
		t.Errorf("calls: %s", text)
	}
}

// The words are those for the control plane, of which TestErrorsInPlainWords
// has more.
func TestProgramsFailInPlainWords(t *testing.T) {
	for says, want := range map[string]string{
		`autoscaler/config.go:10:2: module lookup disabled by GOPROXY=off`:          "cannot download a module: the first build needs the network",
		`cgo: C compiler "gcc" not found: exec: "gcc": executable file not found`:   "gcc is not found",
		"_cgo_export.c:3:10: fatal error: stdlib.h: No such file or directory":      "libc6-dev\n  gcc says: _cgo_export.c:3:10: fatal error: stdlib.h",
		"/usr/bin/ld: final link failed: No space left on device":                   "the disk is full",
		"verifying go.etcd.io/bbolt@v1.5.0: checksum mismatch\n\nSECURITY ERROR oh": "checksum in go.sum says",
	} {
		o, _ := checkout(t)
		fakeGo(t, "case $1 in env) echo somewhere; exit;; list) exit;; esac\ncat >&2 <<'EOF'\n"+says+"\nEOF\nexit 1")
		_, err := Programs(context.Background(), o)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "compiling gpuscale's programs: ") {
			t.Errorf("%s\ngot  %v\nwant %s", says, err, want)
		}
	}
}

func TestCtrlCEndsTheCompilerOfPrograms(t *testing.T) {
	o, _ := checkout(t)
	fakeGo(t, `case "$1" in build) sleep 60 ;; esac`)
	ctx, ctrlC := context.WithCancel(context.Background())
	time.AfterFunc(200*time.Millisecond, ctrlC)
	begin := time.Now()
	if _, err := Programs(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took > 30*time.Second { // not the compiler's sixty
		t.Errorf("took %s", took)
	}
}

func TestProgressOnATerminalDoesNotWrap(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, title: "the control plane", now: time.Now, width: func() (int, bool) { return 40, true }}
	p.start, p.begin = p.now(), p.now()
	p.compiling(1876)
	line := strings.TrimPrefix(out.String(), "\r\x1b[K")
	if n := len([]rune(line)); n > 39 || !strings.HasSuffix(line, "…") {
		t.Errorf("%d columns: %q", n, line)
	}
	if _, tty := columns(&out); tty {
		t.Error("a buffer is taken for a terminal")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, tty := columns(null); tty {
		t.Error("/dev/null is taken for a terminal")
	}
}

// Otherwise the Makefile's first step could not say that there is no network.
func TestBootstrapNeedsNothingDownloaded(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./bootstrap").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range strings.Fields(string(out)) {
		if !strings.HasPrefix(pkg, "github.com/gpuscale/gpuscale/") {
			t.Errorf("it imports %s", pkg)
		}
	}
	if len(out) == 0 {
		t.Error("nothing was listed")
	}
}
