// Package image makes container images of files, without a container engine.
//
// It knows nothing of programs: what an image holds and how it starts is said by its
// caller.
package image

import (
	"archive/tar"
	"bytes"
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

// Image of this machine's platform.
type Image struct {
	Name       string            // NAME:TAG, without a registry docker.io/library/NAME:TAG
	Files      map[string]string // the machine's file for each absolute path; their modes are kept
	Entrypoint []string
	Env        []string // NAME=VALUE
	User       string   // UID or UID:GID; empty: root
}

// Write the image as an archive that `ctr images import` reads.
func (i Image) Write(file string) error {
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return fmt.Errorf("making image %s: %w", i.Name, err)
	}
	files, err := i.files()
	if err != nil {
		return fmt.Errorf("making image %s: %w", i.Name, err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithCompressionLevel(0))
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

// files is the layer: folders before what is in them.
func (i Image) files() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
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
		return nil, err
	}
	for _, to := range slices.Sorted(maps.Keys(i.Files)) {
		if err := folder(path.Dir(to), 0o755); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(i.Files[to])
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(i.Files[to])
		if err != nil {
			return nil, err
		}
		header := &tar.Header{Name: strings.TrimPrefix(to, "/"), Mode: int64(info.Mode() & fs.ModePerm), Size: int64(len(data))}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
