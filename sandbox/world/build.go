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

// Binaries lists everything that must be compiled before a world can start.
type Binaries struct {
	Root         string // of the checkout
	ControlPlane build.Paths
	Programs     string // folder of gpuscale's
	DCGM         string // folder with the DCGM fake, for LD_LIBRARY_PATH
}

// Program returns the path of one of gpuscale's programs.
func (b Binaries) Program(name string) string { return filepath.Join(b.Programs, name) }

// Build compiles what is not in the cache. It reports long compilations to out.
func Build(ctx context.Context, root string, out io.Writer) (Binaries, error) {
	o := build.Options{Root: root, Out: out}
	b := Binaries{Root: root}
	var err error
	if b.ControlPlane, err = build.All(ctx, o); err != nil {
		return Binaries{}, err
	}
	if b.Programs, err = build.Programs(ctx, o); err != nil {
		return Binaries{}, err
	}
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
