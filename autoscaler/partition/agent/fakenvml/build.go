package fakenvml

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed c/nvml.c
var source string

// EnvState names the environment variable through which a process tells the
// double where its state file lies.
const EnvState = "FAKENVML_STATE"

// Library is the file name of the double, as the loader looks for it.
const Library = "libnvidia-ml.so.1"

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the NVML double")

// Build compiles the double into dir and gives the path of the library.
func Build(ctx context.Context, dir string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	code := filepath.Join(dir, "nvml.c")
	if err := os.WriteFile(code, []byte(source), 0o644); err != nil {
		return "", fmt.Errorf("building the NVML double: %w", err)
	}
	out := filepath.Join(dir, Library)
	said, err := exec.CommandContext(ctx, gcc, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
		"-fvisibility=hidden", "-pthread", "-Wl,-soname,"+Library, "-o", out, code).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compiling the NVML double: %w\n%s", err, strings.TrimSpace(string(said)))
	}
	return out, nil
}
