package fakedcgm

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gpuscale/gpuscale/internal/cbuild"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

//go:embed c
var embedded embed.FS

// ErrNoCompiler is wrapped by Build when the machine has no gcc, or no Go to find the headers.
var ErrNoCompiler = cbuild.ErrNoCompiler

// Build compiles libdcgm.so.4 and the NVML fake into a folder in dir, as cbuild.Build does, and
// returns that folder, for LD_LIBRARY_PATH. It runs in this module's checkout.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	source, err := fs.Sub(embedded, "c")
	if err != nil {
		panic(err) // the name of the folder is a constant
	}
	headers, err := Headers(ctx)
	if err != nil {
		return "", err
	}
	return cbuild.Build(ctx, dir, "fakedcgm",
		cbuild.Target{Output: "libdcgm.so.4", Sources: []fs.FS{source, fakenvml.StateSource()}, Flags: []string{"-isystem", headers}}, fakenvml.Target())
}

// Headers is the folder of DCGM's headers, which come with go-dcgm.
func Headers(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-dcgm").Output()
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	if err != nil {
		return "", fmt.Errorf("looking for DCGM's headers in go-dcgm: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "pkg", "dcgm"), nil
}
