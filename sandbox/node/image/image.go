// Package image makes container images from files, without a container engine.
//
// It knows nothing about programs: the caller says what an image contains and how it starts.
package image

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Image is a container image for this machine's platform.
type Image struct {
	Name       string            // NAME:TAG, without a registry docker.io/library/NAME:TAG
	Files      map[string]string // file on this machine by absolute path in the image; file modes are kept
	Entrypoint []string
	Env        []string // NAME=VALUE
	User       string   // UID or UID:GID; empty: root
}

// Write writes the image as an archive that `ctr images import` reads.
func (i Image) Write(file string) error {
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return fmt.Errorf("making image %s: %w", i.Name, err)
	}
	files := file + ".layer"
	defer os.Remove(files)
	if err := i.writeFiles(files); err != nil {
		return fmt.Errorf("making image %s: %w", i.Name, err)
	}
	layer, err := tarball.LayerFromFile(files, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return fmt.Errorf("making image %s: %w", i.Name, err)
	}
	made, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: i.Entrypoint, Env: i.Env, User: i.User},
	})
	if err == nil {
		made, err = mutate.AppendLayers(made, layer)
	}
	if err == nil {
		err = tarball.WriteToFile(file, tag, made)
	}
	if err != nil {
		return fmt.Errorf("making image %s: %w", i.Name, err)
	}
	return nil
}

// writeFiles writes the layer: folders before their content.
func (i Image) writeFiles(file string) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	made := map[string]bool{}
	folder := func(dir string, mode int64) error {
		var missing []string
		for ; dir != "/" && dir != "." && !made[dir]; dir = path.Dir(dir) {
			missing, made[dir] = append(missing, dir), true
		}
		for _, d := range slices.Backward(missing) {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(d, "/") + "/", Mode: mode}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := folder("/tmp", 0o1777); err != nil {
		return err
	}
	for _, to := range slices.Sorted(maps.Keys(i.Files)) {
		if err := folder(path.Dir(to), 0o755); err != nil {
			return err
		}
		if err := add(w, to, i.Files[to]); err != nil {
			return err
		}
	}
	return w.Close()
}

func add(w *tar.Writer, to, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(to, "/"), Mode: int64(info.Mode() & fs.ModePerm), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}
