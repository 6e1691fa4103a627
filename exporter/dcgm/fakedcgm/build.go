package fakedcgm

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed c
var source embed.FS

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the DCGM double")

// libraries says which files make up each library.
var libraries = map[string][]string{
	"libdcgm.so.4": {
		"state.c", "file.c", "engine.c", "groups.c", "fields.c", "samples.c", "api.c", "values.c", "topology.c",
	},
	"libnvidia-ml.so.1": {"state.c", "file.c", "nvml.c"},
}

// Build compiles the two libraries into dir and gives the folder to put into
// LD_LIBRARY_PATH. What an earlier Build of the same source left there is used
// again; several processes may Build into one dir at a time.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	return build(ctx, dir, "-O2")
}

// build compiles with extra compiler flags, which belong to the cache key.
func build(ctx context.Context, dir string, flags ...string) (string, error) {
	key, err := sourceKey(flags)
	if err != nil {
		return "", fmt.Errorf("building the DCGM double: %w", err)
	}
	dir, err = filepath.Abs(dir) // LD_LIBRARY_PATH must not depend on a working directory
	if err != nil {
		return "", fmt.Errorf("building the DCGM double: %w", err)
	}
	libDir := filepath.Join(dir, "fakedcgm-"+key)
	if _, err := os.Stat(libDir); err == nil {
		return libDir, nil
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoCompiler, err)
	}
	// A whole folder is renamed into place, so that libDir is never half built.
	work, err := makeWorkDir(dir)
	if err != nil {
		return "", fmt.Errorf("building the DCGM double: %w", err)
	}
	defer os.RemoveAll(work)
	for lib, files := range libraries {
		if err := compile(ctx, gcc, work, lib, files, flags); err != nil {
			return "", err
		}
	}
	err = os.Rename(filepath.Join(work, "lib"), libDir)
	if _, statErr := os.Stat(libDir); err != nil && statErr != nil {
		return "", fmt.Errorf("building the DCGM double: %w", err)
	}
	return libDir, nil
}

// makeWorkDir lays out a folder in dir with the source in c and an empty lib.
func makeWorkDir(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(dir, ".fakedcgm-*")
	if err != nil {
		return "", err
	}
	err = os.CopyFS(work, source)
	if err == nil {
		err = os.Mkdir(filepath.Join(work, "lib"), 0o755)
	}
	if err != nil {
		os.RemoveAll(work)
		return "", err
	}
	return work, nil
}

func compile(ctx context.Context, gcc, work, lib string, files, flags []string) error {
	args := append([]string{
		"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared",
		"-fvisibility=hidden", "-pthread", "-Wl,-soname," + lib, "-o", filepath.Join("..", "lib", lib),
	}, flags...)
	cmd := exec.CommandContext(ctx, gcc, append(args, files...)...)
	cmd.Dir = filepath.Join(work, "c")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("compiling the double of %s: %w\n%s", lib, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// sourceKey names the embedded source and the flags by a hash.
func sourceKey(flags []string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, flags)
	err := fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := source.ReadFile(path)
		fmt.Fprintln(h, path, len(data))
		h.Write(data)
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:6]), err
}
