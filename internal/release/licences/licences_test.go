package licences

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func module(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(dir, f), []byte("text of "+f+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWrite(t *testing.T) {
	var out bytes.Buffer
	if err := write(&out, "example.test/m v1.0.0", module(t, "LICENSE.txt", "NOTICE", "license.go", "README.md", "COPYING-MIT")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"example.test/m v1.0.0: LICENSE.txt\n", "text of LICENSE.txt", "text of NOTICE", "text of COPYING-MIT"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	for _, not := range []string{"license.go", "README"} {
		if strings.Contains(out.String(), not) {
			t.Errorf("%q in\n%s", not, out.String())
		}
	}
}

func TestNoLicence(t *testing.T) {
	if err := write(&bytes.Buffer{}, "m", module(t, "README.md")); err == nil || !strings.Contains(err.Error(), "no file LICENSE") {
		t.Errorf("got %v", err)
	}
	if err := write(&bytes.Buffer{}, "m", ""); err == nil || !strings.Contains(err.Error(), "not downloaded") {
		t.Errorf("got %v", err)
	}
}

// A module of ours, as go finds it.
func TestCollect(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{{Path: "github.com/spf13/cobra", Version: "v1.10.2"}}}
	got, err := Collect(t.Context(), filepath.Join("..", "..", ".."), info)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Go go1.26.8: LICENSE\n", "The Go Authors", "github.com/spf13/cobra v1.10.2: LICENSE.txt\n", "Apache License"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%.3000s", want, got)
		}
	}
}
