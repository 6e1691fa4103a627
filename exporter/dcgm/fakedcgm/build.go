package fakedcgm

import (
	"context"
	"embed"
	"io/fs"

	"github.com/gpuscale/gpuscale/internal/cbuild"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

//go:embed c
var embedded embed.FS

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = cbuild.ErrNoCompiler

// HostEngine is the file name of the pretended host engine in Build's folder.
const HostEngine = "fake-hostengine"

// Build compiles libdcgm.so.4, the NVML fake and the host engine into a folder in
// dir, as cbuild.Build does, and returns that folder, for LD_LIBRARY_PATH.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	source, err := fs.Sub(embedded, "c")
	if err != nil {
		panic(err) // the name of the folder is a constant
	}
	engine := []string{"state.c", "file.c", "wire.c", "engine.c", "groups.c", "fields.c", "samples.c", "machine.c", "values.c", "health.c"}
	return cbuild.Build(ctx, dir, "fakedcgm",
		cbuild.Target{Output: "libdcgm.so.4", Source: source, Files: append(engine, "connection.c", "api.c", "watches.c")},
		cbuild.Target{Output: HostEngine, Source: source, Files: append(engine, "server.c")},
		fakenvml.Target())
}
