package fakenvml

import (
	"context"
	"crypto/sha256"
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

// Library is the file name of the fake, as the loader looks for it.
const Library = "libnvidia-ml.so.1"

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the NVML fake")

// Build compiles the fake into a folder in dir and gives that folder, for
// LD_LIBRARY_PATH; an empty dir is one in the user's cache. Further compiler flags may be
// given. What an earlier Build of the same
// left there is used again; several processes may Build into one dir at a time.
func Build(ctx context.Context, dir string, flags ...string) (libDir string, err error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "gpuscale-fakes")
	}
	key := sha256.Sum256([]byte(fmt.Sprint(source, flags)))
	libDir = filepath.Join(dir, fmt.Sprintf("fakenvml-%x", key[:6]))
	if _, err := os.Stat(libDir); err == nil {
		return libDir, nil
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	// A whole folder is renamed into place, so that libDir is never half built.
	err = os.MkdirAll(dir, 0o755)
	var work string
	if err == nil {
		work, err = os.MkdirTemp(dir, ".fakenvml-*")
	}
	if err != nil {
		return "", fmt.Errorf("building the NVML fake: %w", err)
	}
	defer os.RemoveAll(work)
	cmd := exec.CommandContext(ctx, gcc, append([]string{
		"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread",
		"-Wl,-soname," + Library, "-o", filepath.Join(work, Library), "-x", "c", "-",
	}, flags...)...)
	cmd.Stdin = strings.NewReader(source)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the NVML fake: %w\n%s", err, strings.TrimSpace(string(output)))
	}
	err = os.Rename(work, libDir)
	if _, statErr := os.Stat(libDir); err != nil && statErr != nil {
		return "", fmt.Errorf("building the NVML fake: %w", err)
	}
	return libDir, nil
}
