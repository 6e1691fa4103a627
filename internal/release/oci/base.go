package oci

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// image is one platform's image of a base.
type image struct {
	config imageConfig
	layers [][]byte // gzipped tars, lowest first
}

// depth bounds how many indexes may lie in one another.
const depth = 4

// readBase finds the image for linux/arch in an OCI layout. Every blob is
// compared with its digest: a base is what was named, or nothing.
func readBase(layout fs.FS, arch string) (image, error) {
	data, err := fs.ReadFile(layout, "index.json")
	if err != nil {
		return image{}, fmt.Errorf("not an OCI layout: %w", err)
	}
	var x index
	if err := json.Unmarshal(data, &x); err != nil {
		return image{}, fmt.Errorf("index.json: %w", err)
	}
	m, found, err := findManifest(layout, x, arch, depth)
	if err != nil {
		return image{}, err
	}
	if !found {
		return image{}, fmt.Errorf("it has no image for linux/%s", arch)
	}
	return readImage(layout, m)
}

func findManifest(layout fs.FS, x index, arch string, depth int) (m manifest, found bool, err error) {
	if depth == 0 {
		return manifest{}, false, errors.New("indexes in indexes in indexes")
	}
	for _, d := range x.Manifests {
		if d.Platform != nil && (d.Platform.OS != "linux" || d.Platform.Architecture != arch) {
			continue
		}
		switch d.MediaType {
		case typeIndex, dockerIndex:
			var inner index
			if err = readJSON(layout, d, &inner); err == nil {
				m, found, err = findManifest(layout, inner, arch, depth-1)
			}
		case typeManifest, dockerManifest:
			m, found, err = manifestFor(layout, d, arch)
		default:
			// Signatures and attestations may lie beside images.
		}
		if err != nil || found {
			return m, found, err
		}
	}
	return manifest{}, false, nil
}

// manifestFor reads a manifest and asks its configuration for the platform: a
// descriptor need not say it.
func manifestFor(layout fs.FS, d descriptor, arch string) (manifest, bool, error) {
	var m manifest
	if err := readJSON(layout, d, &m); err != nil {
		return manifest{}, false, err
	}
	var c imageConfig
	if err := readJSON(layout, m.Config, &c); err != nil {
		return manifest{}, false, err
	}
	return m, c.OS == "linux" && c.Architecture == arch, nil
}

func readImage(layout fs.FS, m manifest) (image, error) {
	var i image
	if err := readJSON(layout, m.Config, &i.config); err != nil {
		return image{}, err
	}
	if got, want := len(m.Layers), len(i.config.RootFS.DiffIDs); got != want {
		return image{}, fmt.Errorf("%d layers in the manifest, %d in the configuration", got, want)
	}
	for _, d := range m.Layers {
		if d.MediaType != typeLayer && d.MediaType != dockerLayer {
			return image{}, fmt.Errorf("layer %s is %s: only gzipped tars can be taken over", d.Digest, d.MediaType)
		}
		data, err := readBlob(layout, d)
		if err != nil {
			return image{}, err
		}
		i.layers = append(i.layers, data)
	}
	return i, nil
}

func readJSON(layout fs.FS, d descriptor, to any) error {
	data, err := readBlob(layout, d)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, to); err != nil {
		return fmt.Errorf("blob %s: %w", d.Digest, err)
	}
	return nil
}

func readBlob(layout fs.FS, d descriptor) ([]byte, error) {
	hash, ok := strings.CutPrefix(d.Digest, "sha256:")
	if !ok || len(hash) != 64 {
		return nil, fmt.Errorf("digest %q: want sha256", d.Digest)
	}
	data, err := fs.ReadFile(layout, "blobs/sha256/"+hash)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", d.Digest, err)
	}
	if sum(data) != hash {
		return nil, fmt.Errorf("blob %s is not what its digest says", d.Digest)
	}
	return data, nil
}
