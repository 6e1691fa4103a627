package fakedcgm

import (
	"context"
	"embed"
	"io/fs"

	"github.com/gpuscale/gpuscale/internal/cbuild"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

//go:embed c
var library embed.FS

// Headers is the package with DCGM's headers.
const Headers = "github.com/NVIDIA/go-dcgm/pkg/dcgm"

// Build compiles libdcgm.so.4 and the NVML fake into a folder in dir, as cbuild.Build does, and
// returns that folder, for LD_LIBRARY_PATH.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	return cbuild.Build(ctx, dir, "fakedcgm",
		cbuild.Target{Output: "libdcgm.so.4", Sources: []fs.FS{library, fakenvml.Machine}, Headers: Headers}, fakenvml.Target())
}
