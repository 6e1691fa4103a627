package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuscale/gpuscale/internal/release/pack"
)

func spec() Spec {
	return Spec{
		Name: "gpuscale-x:0.1.0", Entrypoint: []string{"/gpuscale-x"}, User: "65532:65532",
		Labels: map[string]string{"org.opencontainers.image.version": "0.1.0"}, Created: time.Unix(1_790_000_000, 5),
		Platforms: []Platform{
			{"amd64", []pack.File{{Name: "gpuscale-x", Mode: 0o755, Data: []byte("for amd64")}, {Name: "etc/ssl/certs/ca.crt", Mode: 0o644, Data: []byte("CA")}}},
			{"arm64", []pack.File{{Name: "gpuscale-x", Mode: 0o755, Data: []byte("for arm64")}}},
		},
	}
}

func layout(t *testing.T, s Spec) (fstest.MapFS, string) {
	t.Helper()
	files, digest, err := Layout(s)
	if err != nil {
		t.Fatal(err)
	}
	fsys := fstest.MapFS{}
	for _, f := range files {
		fsys[f.Name] = &fstest.MapFile{Data: f.Data, Mode: f.Mode}
	}
	return fsys, digest
}

// read gives what a runtime would see: the configuration, and the files of all
// layers, where a later one wins. Layers must be those of diff_ids.
func read(t *testing.T, layout fs.FS, arch string) (imageConfig, map[string]string) {
	t.Helper()
	i, err := readBase(layout, arch)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for n, l := range i.layers {
		z, err := gzip.NewReader(bytes.NewReader(l))
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if got := "sha256:" + sum(raw); got != i.config.RootFS.DiffIDs[n] {
			t.Errorf("layer %d is %s, the configuration says %s", n, got, i.config.RootFS.DiffIDs[n])
		}
		for r := tar.NewReader(bytes.NewReader(raw)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(r)
			seen[h.Name] = fmt.Sprintf("%04o %s", h.Mode, body)
		}
	}
	return i.config, seen
}

func TestLayout(t *testing.T) {
	fsys, digest := layout(t, spec())
	c, files := read(t, fsys, "amd64")
	want := map[string]string{
		"gpuscale-x": "0755 for amd64", "etc/": "0755 ", "etc/ssl/": "0755 ", "etc/ssl/certs/": "0755 ", "etc/ssl/certs/ca.crt": "0644 CA",
	}
	if !reflect.DeepEqual(files, want) {
		t.Errorf("files: got %v, want %v", files, want)
	}
	if c.Architecture != "amd64" || c.Config.User != "65532:65532" || c.Config.Entrypoint[0] != "/gpuscale-x" || c.Config.Labels["org.opencontainers.image.version"] != "0.1.0" {
		t.Errorf("configuration: %+v", c)
	}
	if _, files = read(t, fsys, "arm64"); files["gpuscale-x"] != "0755 for arm64" {
		t.Errorf("arm64 has %v", files)
	}
	if _, ok := fsys["blobs/sha256/"+strings.TrimPrefix(digest, "sha256:")]; !ok {
		t.Errorf("no blob %s", digest)
	}
	if !bytes.Contains(fsys["index.json"].Data, []byte(`"io.containerd.image.name":"gpuscale-x:0.1.0"`)) {
		t.Error("index.json does not name the image")
	}
}

func TestSameBytes(t *testing.T) {
	a, one := layout(t, spec())
	s := spec()
	s.Platforms[0].Files[0], s.Platforms[0].Files[1] = s.Platforms[0].Files[1], s.Platforms[0].Files[0]
	b, two := layout(t, s)
	if one != two || !reflect.DeepEqual(a, b) {
		t.Errorf("two images of the same files: %s and %s", one, two)
	}
	s.Platforms[0].Files[0].Data = []byte("other")
	if _, three := layout(t, s); three == one {
		t.Error("another file, the same digest")
	}
}

func TestOverABase(t *testing.T) {
	base := spec()
	base.User, base.Entrypoint = "1:1", []string{"/bin/sh"}
	base.Platforms[0].Files = []pack.File{{Name: "lib/libc.so.6", Mode: 0o755, Data: []byte("libc")}, {Name: "gpuscale-x", Data: []byte("old")}}
	below, _ := layout(t, base)

	s := spec()
	s.Base, s.User = below, ""
	fsys, _ := layout(t, s)
	c, files := read(t, fsys, "amd64")
	if files["lib/libc.so.6"] != "0755 libc" || files["gpuscale-x"] != "0755 for amd64" {
		t.Errorf("files: %v", files)
	}
	if c.Config.User != "1:1" || !reflect.DeepEqual(c.Config.Entrypoint, []string{"/gpuscale-x"}) || len(c.RootFS.DiffIDs) != 2 {
		t.Errorf("configuration: %+v", c)
	}
}

func TestBadBases(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(fstest.MapFS)
		want  string
	}{
		"not a layout": {func(m fstest.MapFS) { delete(m, "index.json") }, "not an OCI layout"},
		"not JSON":     {func(m fstest.MapFS) { m["index.json"].Data = []byte("{") }, "index.json"},
		"empty":        {func(m fstest.MapFS) { m["index.json"].Data = []byte("{}") }, "no image for linux/amd64"},
		"a digest that is a path": {func(m fstest.MapFS) {
			m["index.json"].Data = []byte(`{"manifests":[{"mediaType":"` + typeManifest + `","digest":"sha256:../../index.json"}]}`)
		}, "want sha256"},
		"a blob was changed": {func(m fstest.MapFS) {
			for name, f := range m {
				if strings.HasPrefix(name, "blobs/") {
					f.Data = append(f.Data, ' ')
				}
			}
		}, "not what its digest says"},
		"a blob is missing": {func(m fstest.MapFS) {
			for name := range m {
				if strings.HasPrefix(name, "blobs/") {
					delete(m, name)
				}
			}
		}, "blob sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			below, _ := layout(t, spec())
			c.spoil(below)
			s := spec()
			s.Base = below
			if _, _, err := Layout(s); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("without our platform", func(t *testing.T) {
		base := spec()
		base.Platforms = base.Platforms[:1]
		s := spec()
		s.Base, _ = layout(t, base)
		if _, _, err := Layout(s); err == nil || !strings.Contains(err.Error(), "no image for linux/arm64") {
			t.Errorf("got %v", err)
		}
	})
}

// A base comes from elsewhere: whatever its index says, no panic.
func FuzzBase(f *testing.F) {
	files, _, err := Layout(spec())
	if err != nil {
		f.Fatal(err)
	}
	below := fstest.MapFS{}
	for _, file := range files {
		below[file.Name] = &fstest.MapFile{Data: file.Data}
	}
	f.Add(below["index.json"].Data)
	f.Fuzz(func(t *testing.T, data []byte) {
		m := fstest.MapFS{"index.json": {Data: data}}
		for name, file := range below {
			if name != "index.json" {
				m[name] = file
			}
		}
		if i, err := readBase(m, "amd64"); err == nil && (!json.Valid(data) || len(i.layers) != len(i.config.RootFS.DiffIDs)) {
			t.Errorf("read %+v", i)
		}
	})
}
