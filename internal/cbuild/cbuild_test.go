package cbuild

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gpuscale/gpuscale/internal/require"
)

func program(code string) Target {
	return Target{Output: "answer", Sources: []fs.FS{fstest.MapFS{"a.c": {Data: []byte(code)}}, fstest.MapFS{"b.c": {Data: []byte("int b(void) { return ANSWER; }")}}}, Flags: []string{"-DANSWER=7"}}
}

// A program is compiled once for each source, and an error has the compiler's output.
func TestBuild(t *testing.T) {
	dir := t.TempDir()
	good := program("int b(void); int main(void) { return b(); }")
	folder, err := Build(t.Context(), dir, "x", good)
	if errors.Is(err, ErrNoCompiler) {
		t.Skip(err)
	}
	require.NoError(t, err)
	var exit *exec.ExitError
	if err := exec.Command(filepath.Join(folder, "answer")).Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("the program: %v", err)
	}
	before, err := os.Stat(filepath.Join(folder, "answer"))
	require.NoError(t, err)
	again, err := Build(t.Context(), dir, "x", good)
	after, statErr := os.Stat(filepath.Join(again, "answer"))
	if err != nil || statErr != nil || again != folder || !os.SameFile(before, after) {
		t.Errorf("built again into %s: %v, %v", again, err, statErr)
	}
	other := good
	other.Flags = []string{"-DANSWER=8"}
	if folder, err := Build(t.Context(), dir, "x", other); err != nil || folder == again {
		t.Errorf("other flags give %s: %v", folder, err)
	}
	if _, err := Build(t.Context(), dir, "x", program("int main(void) { return nothing; }")); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("err = %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".x-*")); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}
