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

// EnvState is the environment variable with the path of the fake's state file.
const EnvState = "FAKENVML_STATE"

// Library is the file name of the fake, as the loader looks for it.
const Library = "libnvidia-ml.so.1"

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the fake NVML library")

// Build compiles the fake into dir and returns the path of the library.
func Build(ctx context.Context, dir string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	code := filepath.Join(dir, "nvml.c")
	if err := os.WriteFile(code, []byte(source), 0o644); err != nil {
		return "", fmt.Errorf("building the fake NVML library: %w", err)
	}
	out := filepath.Join(dir, Library)
	output, err := exec.CommandContext(ctx, gcc, "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
		"-fvisibility=hidden", "-pthread", "-Wl,-soname,"+Library, "-o", out, code).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compiling the fake NVML library: %w\n%s", err, strings.TrimSpace(string(output)))
	}
	return out, nil
}

// Main runs a package's tests with the compiled library's path in lib, which stays empty
// without a compiler. It does not return. The library is loaded once per process:
// symbols stay bound to the first one.
func Main(m interface{ Run() int }, lib *string) {
	dir, err := os.MkdirTemp("", "fakenvml-*")
	if err == nil {
		*lib, err = Build(context.Background(), dir)
	}
	if err != nil && !errors.Is(err, ErrNoCompiler) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
