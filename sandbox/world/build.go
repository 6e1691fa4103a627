package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/sandbox/build"
)

// Binaries is everything that must be compiled before a world can start.
type Binaries struct {
	Root         string // of the checkout
	ControlPlane build.Paths
	Exporter     string
	Adapter      string
	Autoscaler   string
	Report       string
	DCGM         string // folder with the DCGM fake, for LD_LIBRARY_PATH
}

// Build compiles what is not in the cache, and reports to out what takes long.
func Build(ctx context.Context, root string, out io.Writer) (Binaries, error) {
	if err := build.CheckTools(); err != nil {
		return Binaries{}, err
	}
	o := build.Options{Root: root, Out: out}
	b := Binaries{Root: root}
	var err error
	if b.ControlPlane, err = build.All(ctx, o); err != nil {
		return Binaries{}, err
	}
	programs, err := build.Programs(ctx, o)
	if err != nil {
		return Binaries{}, err
	}
	b.Exporter = filepath.Join(programs, "gpuscale-exporter")
	b.Adapter = filepath.Join(programs, "gpuscale-adapter")
	b.Autoscaler = filepath.Join(programs, "gpuscale-autoscaler")
	b.Report = filepath.Join(programs, "gpuscale-report")
	folder, err := build.Folder(o)
	if err != nil {
		return Binaries{}, err
	}
	b.DCGM, err = fakedcgm.Build(ctx, filepath.Join(folder, "fakedcgm"))
	if err != nil {
		return Binaries{}, fmt.Errorf("compiling the DCGM fake: %w", errors.Join(err, ctx.Err()))
	}
	return b, nil
}
