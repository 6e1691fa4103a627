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
	"slices"
	"strings"
)

//go:embed c
var source embed.FS

// ErrNoCompiler is wrapped by Build when the machine has no gcc.
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the DCGM double")

// HostEngine is the file name of the pretended host engine in Build's folder.
const HostEngine = "fake-hostengine"

// engineFiles are the pretended host engine, libraryFiles what calls it.
var (
	engineFiles = []string{
		"state.c", "file.c", "wire.c", "engine.c", "groups.c", "fields.c", "samples.c", "machine.c", "values.c", "health.c",
	}
	libraryFiles = []string{"connection.c", "api.c", "watches.c"}
)

// artifact is one file that is built.
type artifact struct {
	name  string
	files []string
	flags []string
}

func artifacts() []artifact {
	library := func(name string, files []string) artifact {
		return artifact{name, files, []string{"-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-soname," + name}}
	}
	return []artifact{
		library("libdcgm.so.4", slices.Concat(engineFiles, libraryFiles)),
		library("libnvidia-ml.so.1", []string{"state.c", "file.c", "nvml.c"}),
		{HostEngine, append(slices.Clone(engineFiles), "server.c"), nil},
	}
}

// Build compiles the two libraries and the host engine into dir and gives the folder to put into
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
	for _, a := range artifacts() {
		if err := compile(ctx, gcc, work, a, flags); err != nil {
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

func compile(ctx context.Context, gcc, work string, a artifact, flags []string) error {
	args := slices.Concat([]string{
		"-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", filepath.Join("..", "lib", a.name),
	}, flags, a.flags, a.files)
	cmd := exec.CommandContext(ctx, gcc, args...)
	cmd.Dir = filepath.Join(work, "c")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("compiling the double of %s: %w\n%s", a.name, err, strings.TrimSpace(string(out)))
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
