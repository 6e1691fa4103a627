package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCI: CI's script skips the real node where the machine does not support one, and says why. It fails if a
// make target fails.
func TestCI(t *testing.T) {
	script := filepath.Join(root(t), ".ci/run")
	testscript.Run(t, testscript.Params{Dir: "testdata/ci", Setup: func(e *testscript.Env) error {
		for _, program := range []string{"bash", "sh", "dirname", "timeout"} {
			at, err := exec.LookPath(program)
			if err != nil {
				return err
			}
			if err := os.Symlink(at, filepath.Join(e.WorkDir, "bin", program)); err != nil {
				return err
			}
		}
		e.Setenv("RUN", script)
		e.Setenv("PATH", filepath.Join(e.WorkDir, "bin"))
		return nil
	}})
}
