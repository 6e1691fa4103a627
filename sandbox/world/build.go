package world

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

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
	DCGM         string // folder with the DCGM double, for LD_LIBRARY_PATH
}

// Build compiles what is not in the cache, telling out what takes long.
func Build(ctx context.Context, root string, out io.Writer) (Binaries, error) {
	if err := build.CheckTools(); err != nil {
		return Binaries{}, err
	}
	b := Binaries{Root: root}
	var err error
	if b.ControlPlane, err = build.All(ctx, build.Options{Root: root, Out: out}); err != nil {
		return Binaries{}, err
	}
	cache := os.Getenv(build.CacheEnv)
	if cache == "" {
		cache = filepath.Join(root, ".cache", "sandbox")
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return Binaries{}, fmt.Errorf("finding the cache folder: %w", err)
	}
	if b.DCGM, err = fakedcgm.Build(ctx, filepath.Join(cache, "fakedcgm")); err != nil {
		return Binaries{}, fmt.Errorf("building the DCGM double: %w", err)
	}
	for _, p := range []struct {
		name string
		path *string
	}{{"exporter", &b.Exporter}, {"adapter", &b.Adapter}, {"autoscaler", &b.Autoscaler}} {
		*p.path = filepath.Join(cache, "bin", "gpuscale-"+p.name)
		if err := compile(ctx, root, "./"+p.name, *p.path, out); err != nil {
			return Binaries{}, err
		}
	}
	return b, nil
}

// compile one program of ours; go's own cache makes it quick when nothing has
// changed.
func compile(ctx context.Context, root, pkg, to string, out io.Writer) error {
	begin := time.Now()
	slow := time.AfterFunc(3*time.Second, func() { fmt.Fprintf(out, "compiling gpuscale's %s\n", strings.TrimPrefix(pkg, "./")) })
	defer slow.Stop()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, pkg)
	cmd.Dir = root
	text, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("compiling %s: %w", pkg, context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("compiling %s (after %s): %w\n%s", pkg, time.Since(begin).Round(time.Second), err, strings.TrimSpace(string(text)))
	}
	return nil
}
