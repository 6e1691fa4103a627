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

// Library is the file name of the double, as the loader looks for it.
const Library = "libnvidia-ml.so.1"

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the NVML double")

// Build compiles the double into dir and gives the path of the library. Further
// compiler flags may be given.
func Build(ctx context.Context, dir string, flags ...string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	code := filepath.Join(dir, "nvml.c")
	if err := os.WriteFile(code, []byte(source), 0o644); err != nil {
		return "", fmt.Errorf("building the NVML double: %w", err)
	}
	out := filepath.Join(dir, Library)
	args := append([]string{
		"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread",
		"-Wl,-soname," + Library, "-o", out,
	}, flags...)
	said, err := exec.CommandContext(ctx, gcc, append(args, code)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compiling the NVML double: %w\n%s", err, strings.TrimSpace(string(said)))
	}
	return out, nil
}
