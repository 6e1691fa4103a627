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
var ErrNoCompiler = errors.New("no C compiler: gcc is needed to build the DCGM fake")

// HostEngine is the file name of the pretended host engine in Build's folder.
const HostEngine = "fake-hostengine"

// linked are the files that are built, each of its sources in c.
var linked = func() map[string][]string {
	state := []string{"state", "file"}
	engine := append(state, "wire", "engine", "groups", "fields", "samples", "machine", "values", "health")
	return map[string][]string{
		"libdcgm.so.4":      slices.Concat(engine, []string{"connection", "api", "watches"}),
		"libnvidia-ml.so.1": slices.Concat(state, []string{"nvml"}),
		HostEngine:          slices.Concat(engine, []string{"server"}),
	}
}()

// Build compiles the two libraries and the host engine into dir, where "" is a folder in
// the user's cache, and gives the folder to put into LD_LIBRARY_PATH. What an earlier Build
// of the same source left there is used again; several processes may Build into one dir at
// a time.
func Build(ctx context.Context, dir string) (libDir string, err error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "gpuscale-fakes")
	}
	key, err := sourceKey()
	if err != nil {
		return "", fmt.Errorf("building the DCGM fake: %w", err)
	}
	dir, err = filepath.Abs(dir) // LD_LIBRARY_PATH must not depend on a working directory
	if err != nil {
		return "", fmt.Errorf("building the DCGM fake: %w", err)
	}
	libDir = filepath.Join(dir, "fakedcgm-"+key)
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
		return "", fmt.Errorf("building the DCGM fake: %w", err)
	}
	defer os.RemoveAll(work)
	if err := compile(ctx, gcc, work); err != nil {
		return "", fmt.Errorf("compiling the DCGM fake: %w", err)
	}
	err = os.Rename(filepath.Join(work, "lib"), libDir)
	if _, statErr := os.Stat(libDir); err != nil && statErr != nil {
		return "", fmt.Errorf("building the DCGM fake: %w", err)
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

// compile makes each object once and links them into lib.
func compile(ctx context.Context, gcc, work string) error {
	run := func(args ...string) error {
		cmd := exec.CommandContext(ctx, gcc, args...)
		cmd.Dir = filepath.Join(work, "c")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	sources, err := fs.Glob(source, "c/*.c")
	if err != nil {
		return err
	}
	args := []string{"-c", "-std=c11", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-pthread", "-fPIC", "-fvisibility=hidden"}
	for _, file := range sources {
		args = append(args, filepath.Base(file))
	}
	if err := run(args...); err != nil {
		return err
	}
	for name, files := range linked {
		args := []string{"-pthread", "-o", filepath.Join("..", "lib", name)}
		if name != HostEngine {
			args = append(args, "-shared", "-Wl,-soname,"+name)
		}
		for _, file := range files {
			args = append(args, file+".o")
		}
		if err := run(args...); err != nil {
			return err
		}
	}
	return nil
}

// sourceKey names the embedded source by a hash.
func sourceKey() (string, error) {
	h := sha256.New()
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
