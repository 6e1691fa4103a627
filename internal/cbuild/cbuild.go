// Package cbuild compiles the C sources that Go packages embed: the fakes of
// NVIDIA's libraries. It owns the cache of what was compiled, and is linked into
// no program of the product.
package cbuild

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoCompiler is wrapped by Build when the machine has no gcc, or no Go to find headers.
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the fakes of NVIDIA's libraries")

// Target is one file to build: a shared library when its name has ".so", else a
// program.
type Target struct {
	Output  string   // its name, and a library's soname
	Sources []fs.FS  // .c and .h files, in folders too
	Headers string   // Go package whose folder has further headers; empty for none
	Flags   []string // of gcc, beside the common ones
}

// Build compiles the targets into the folder "NAME-HASH" of dir, and returns that
// folder's absolute path. An empty dir means one in the user's cache. Build reuses
// what an earlier Build of the same sources left there. Several processes may Build
// into one dir at a time. With Headers it must run in this module's checkout.
func Build(ctx context.Context, dir, name string, targets ...Target) (folder string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("building %s: %w", name, err)
		}
	}()
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "gpuscale-fakes")
	}
	targets = slices.Clone(targets)
	for i, t := range targets {
		if t.Headers != "" {
			headers, err := Headers(ctx, t.Headers)
			if err != nil {
				return "", err
			}
			targets[i].Flags = append(slices.Clone(t.Flags), "-isystem", headers)
		}
	}
	key, err := hash(targets)
	if err != nil {
		return "", err
	}
	// LD_LIBRARY_PATH must not depend on a working directory.
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	folder = filepath.Join(dir, name+"-"+key)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	// A whole folder is renamed into place, so that it is never half built.
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, "."+name+"-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	for i, t := range targets {
		if err := t.compile(ctx, gcc, filepath.Join(work, fmt.Sprint(i)), filepath.Join(work, "out")); err != nil {
			return "", err
		}
	}
	err = os.Rename(filepath.Join(work, "out"), folder)
	if _, statErr := os.Stat(folder); err != nil && statErr != nil {
		return "", err
	}
	return folder, nil
}

// Headers returns the folder of a Go package. NVIDIA's bindings have their C headers in
// such a folder.
func Headers(ctx context.Context, of string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", of).Output()
	if errors.Is(err, exec.ErrNotFound) {
		err = fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	if err != nil {
		return "", fmt.Errorf("looking for the headers in %s: %w", of, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func (t Target) compile(ctx context.Context, gcc, source, out string) error {
	for _, from := range t.Sources {
		if err := os.CopyFS(source, from); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	args := []string{"-std=c11", "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-fPIC", "-fvisibility=hidden", "-o", filepath.Join(out, t.Output)}
	if strings.Contains(t.Output, ".so") {
		args = append(args, "-shared", "-Wl,-soname,"+t.Output)
	}
	args = append(args, t.Flags...)
	var files []string
	err := fs.WalkDir(os.DirFS(source), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			args = append(args, "-I"+path)
		} else if strings.HasSuffix(path, ".c") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, gcc, append(args, files...)...)
	cmd.Dir = source
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w\n%s", t.Output, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// hash returns a hash of everything that determines what is built.
func hash(targets []Target) (string, error) {
	h := sha256.New()
	for _, t := range targets {
		fmt.Fprintln(h, t.Output, t.Flags)
		for _, from := range t.Sources {
			err := fs.WalkDir(from, ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := fs.ReadFile(from, path)
				fmt.Fprintln(h, path, len(data))
				h.Write(data)
				return err
			})
			if err != nil {
				return "", err
			}
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:6]), nil
}
