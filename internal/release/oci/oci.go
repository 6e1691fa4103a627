package oci

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/gpuscale/gpuscale/internal/release/pack"
)

// Spec is an image for one or more platforms, all of them Linux.
type Spec struct {
	Name       string // "gpuscale-adapter:0.1.0", for those who load the layout
	Entrypoint []string
	User       string            // "uid:gid"; empty keeps the base's
	Labels     map[string]string // also the manifests' annotations
	Created    time.Time         // of the source, never of the build
	Base       fs.FS             // an OCI layout that has every platform; nil is an empty image
	Platforms  []Platform
}

// Platform is what one architecture's image has over its base.
type Platform struct {
	Arch  string // GOARCH
	Files []pack.File
}

// Layout returns the files of an OCI layout with the image, and the digest of
// its index ("sha256:…"), by which a cluster can name it.
func Layout(s Spec) (files []pack.File, digest string, err error) {
	if len(s.Platforms) == 0 {
		return nil, "", fmt.Errorf("image %s has no platform", s.Name)
	}
	b := blobs{}
	x := index{SchemaVersion: 2, MediaType: typeIndex, Annotations: s.Labels}
	for _, p := range s.Platforms {
		d, err := b.image(s, p)
		if err != nil {
			return nil, "", fmt.Errorf("image %s for linux/%s: %w", s.Name, p.Arch, err)
		}
		x.Manifests = append(x.Manifests, d)
	}
	top, err := b.json(typeIndex, x)
	if err != nil {
		return nil, "", err
	}
	digest = top.Digest
	// containerd and Docker take the first as the name to load under, others the second.
	top.Annotations = map[string]string{"io.containerd.image.name": s.Name, "org.opencontainers.image.ref.name": s.Name}
	entry, err := json.Marshal(index{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{top}})
	if err != nil {
		return nil, "", err
	}
	files = []pack.File{
		{Name: "index.json", Mode: 0o644, Data: entry},
		{Name: "oci-layout", Mode: 0o644, Data: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
	}
	for _, hash := range slices.Sorted(maps.Keys(b)) {
		files = append(files, pack.File{Name: "blobs/sha256/" + hash, Mode: 0o644, Data: b[hash]})
	}
	return files, digest, nil
}

// blobs are contents by the hexadecimal SHA-256 of themselves.
type blobs map[string][]byte

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

func (b blobs) add(mediaType string, data []byte) descriptor {
	hash := sum(data)
	b[hash] = data
	return descriptor{MediaType: mediaType, Digest: "sha256:" + hash, Size: int64(len(data))}
}

func (b blobs) json(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return b.add(mediaType, data), nil
}

// image adds one platform's layers, configuration and manifest.
func (b blobs) image(s Spec, p Platform) (descriptor, error) {
	created := s.Created.UTC().Truncate(time.Second)
	base := image{config: imageConfig{RootFS: rootFS{Type: "layers"}}}
	if s.Base != nil {
		var err error
		if base, err = readBase(s.Base, p.Arch); err != nil {
			return descriptor{}, fmt.Errorf("the base: %w", err)
		}
	}
	c := base.config
	c.Created, c.Architecture, c.OS = &created, p.Arch, "linux"
	c.Config.Entrypoint, c.Config.Labels = s.Entrypoint, s.Labels
	if s.User != "" {
		c.Config.User = s.User
	}
	m := manifest{SchemaVersion: 2, MediaType: typeManifest, Annotations: s.Labels}
	for _, l := range base.layers {
		m.Layers = append(m.Layers, b.add(typeLayer, l))
	}
	var raw bytes.Buffer
	if err := pack.Tar(&raw, p.Files, created); err != nil {
		return descriptor{}, err
	}
	layer, err := pack.Gzip(raw.Bytes())
	if err != nil {
		return descriptor{}, err
	}
	m.Layers = append(m.Layers, b.add(typeLayer, layer))
	c.RootFS.DiffIDs = append(slices.Clone(c.RootFS.DiffIDs), "sha256:"+sum(raw.Bytes()))
	c.History = append(slices.Clone(c.History), history{Created: &created, CreatedBy: "make image"})
	if m.Config, err = b.json(typeConfig, c); err != nil {
		return descriptor{}, err
	}
	d, err := b.json(typeManifest, m)
	d.Platform = &platform{Architecture: p.Arch, OS: "linux"}
	return d, err
}
