package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestCI: the script that CI runs leaves the real node out where it cannot have one, with
// the reason, and fails where a target fails.
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
