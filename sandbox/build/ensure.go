package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// ensure returns the folder of the target in the cache, compiling it there
// if needed. o has its defaults.
func ensure(ctx context.Context, o Options, t target) (string, error) {
	key, err := t.key(o.Root)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(o.Cache, t.name+"-"+key)
	if t.complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(o.Cache, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder (another place: %s=<folder>): %w", CacheEnv, err)
	}
	unlock, err := lockFor(ctx, o, t, dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	if t.complete(dir) { // another process has just finished it
		return dir, nil
	}

	leftovers, _ := filepath.Glob(dir + ".tmp-*") // of compilations that were killed
	for _, d := range leftovers {
		_ = os.RemoveAll(d)
	}
	tmp, err := os.MkdirTemp(o.Cache, filepath.Base(dir)+".tmp-")
	if err != nil {
		return "", fmt.Errorf("making a folder for %s: %w", t.title, err)
	}
	defer os.RemoveAll(tmp)
	if err := compile(ctx, o, t, tmp); err != nil {
		return "", err
	}
	if err := t.link(tmp); err != nil {
		return "", err
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return "", fmt.Errorf("finishing %s: %w", t.title, err)
	}
	_ = os.RemoveAll(dir) // an incomplete one, touched by hand
	if err := os.Rename(tmp, dir); err != nil {
		return "", fmt.Errorf("finishing %s: %w", t.title, err)
	}
	return dir, nil
}

// again compiles a target of our own sources into dir. Go's own cache makes it
// quick when nothing has changed, and knows better than any key of ours.
func again(ctx context.Context, o Options, t target, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for %s: %w", t.title, err)
	}
	unlock, err := lockFor(ctx, o, t, filepath.Join(dir, t.name))
	if err != nil {
		return err
	}
	defer unlock()
	if err := compile(ctx, o, t, dir); err != nil {
		return err
	}
	return t.link(dir)
}

func lockFor(ctx context.Context, o Options, t target, path string) (func(), error) {
	unlock, err := lock(ctx, path+".lock", func() {
		fmt.Fprintf(o.Out, "another sandbox is compiling %s, waiting for it\n", t.title)
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for %s: %w", t.title, err)
	}
	return unlock, nil
}

// link gives the target's files their other names.
func (t target) link(dir string) error {
	for name, to := range t.links {
		path := filepath.Join(dir, name)
		if have, err := os.Readlink(path); err == nil && have == to {
			continue
		}
		if err := os.Symlink(to, path); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}
