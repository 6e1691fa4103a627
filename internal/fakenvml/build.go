package fakenvml

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gpuscale/gpuscale/internal/cbuild"
)

//go:embed c
var library embed.FS

// Machine is the C source of the machine, which the DCGM fake has too.
//
//go:embed machine
var Machine embed.FS

// Library is the file name of the fake, as the loader looks for it.
const Library = "libnvidia-ml.so.1"

// ErrNoCompiler is wrapped by Build when the machine has no gcc, or no Go to find headers.
var ErrNoCompiler = cbuild.ErrNoCompiler

// Target is the library, built with further gcc flags. NVIDIA's header comes with go-nvml; it
// marks replaced functions as deprecated.
func Target(flags ...string) cbuild.Target {
	flags = append(flags, "-Wno-deprecated-declarations")
	return cbuild.Target{Output: Library, Sources: []fs.FS{library, Machine}, Headers: "github.com/NVIDIA/go-nvml/pkg/nvml", Flags: flags}
}

// Build compiles the library into a folder in dir, as cbuild.Build does, and
// returns that folder, for LD_LIBRARY_PATH.
func Build(ctx context.Context, dir string, flags ...string) (libDir string, err error) {
	return cbuild.Build(ctx, dir, "fakenvml", Target(flags...))
}

// Main runs a package's tests with the compiled library's path in lib, which stays empty
// without a compiler. It does not return. The library is loaded once per process:
// symbols stay bound to the first one.
func Main(m interface{ Run() int }, lib *string) {
	dir, err := Build(context.Background(), "")
	switch {
	case err == nil:
		*lib = filepath.Join(dir, Library)
	case !errors.Is(err, ErrNoCompiler):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
