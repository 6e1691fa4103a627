package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestLibraries(t *testing.T) {
	shell, err := Libraries("/bin/sh")
	require.NoError(t, err)
	for _, l := range shell {
		if _, err := os.Stat(l); err != nil {
			t.Error(err)
		}
	}
	if len(shell) < 2 {
		t.Errorf("a shell needs %v: no loader and C library", shell)
	}
	if _, err := Libraries("image_test.go"); err == nil {
		t.Error("a text file has libraries")
	}
}

func TestImageHoldsItsFiles(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(program, []byte("text"), 0o755))
	file := filepath.Join(dir, "image.tar")
	want := Image{Name: "trial:1", Files: map[string]string{"/usr/lib/a/b": program, "/usr/bin/p": program}, Entrypoint: []string{"/usr/bin/p"}, User: "65532"}
	require.NoError(t, want.Write(file))
	got, err := tarball.ImageFromPath(file, nil)
	require.NoError(t, err)
	config, err := got.ConfigFile()
	require.NoError(t, err)
	if config.OS != "linux" || config.Config.User != want.User || !slices.Equal(config.Config.Entrypoint, want.Entrypoint) {
		t.Errorf("its configuration: %+v", config)
	}
	layers := mutate.Extract(got)
	defer layers.Close()
	var names []string
	for r := tar.NewReader(layers); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, h.Name)
		if h.Typeflag == tar.TypeReg && h.Mode != 0o755 {
			t.Errorf("%s has mode %o", h.Name, h.Mode)
		}
	}
	if want := []string{"tmp", "usr", "usr/bin", "usr/bin/p", "usr/lib", "usr/lib/a", "usr/lib/a/b"}; !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
	if err := (Image{Name: "trial:1", Files: map[string]string{"/p": filepath.Join(dir, "none")}}).Write(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}
