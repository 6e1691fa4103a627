package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/internal/release/licences"
	"github.com/gpuscale/gpuscale/internal/release/oci"
	"github.com/gpuscale/gpuscale/internal/release/pack"
)

func imageCommand(ctx context.Context, args []string, out io.Writer) error {
	var c common
	var base, certs string
	flags := flag.NewFlagSet("release image", flag.ContinueOnError)
	c.add(flags, filepath.Join("dist", "images"))
	flags.StringVar(&base, "base", "", "folder with an OCI layout that has glibc, for exporter and agent")
	flags.StringVar(&certs, "certs", "/etc/ssl/certs/ca-certificates.crt", "certificates of the authorities to trust")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := c.release()
	if err != nil {
		return err
	}
	r.log = out
	return r.images(ctx, base, certs)
}

// images writes an OCI layout, a folder, for each program. Programs with cgo
// need a base; where none is given, all of them being wanted is an error, for an
// image that is silently missing is noticed in a cluster.
func (r *release) images(ctx context.Context, base, certs string) error {
	trust, err := os.ReadFile(certs)
	if err != nil {
		return fmt.Errorf("certificates for the images: %w", err)
	}
	var glibc fs.FS
	if base != "" {
		glibc = os.DirFS(base)
	}
	for _, p := range r.programs {
		if p.Cgo && glibc == nil {
			return fmt.Errorf("the image %s needs a base with glibc: name the folder of its OCI layout with -base, or leave it out with -only", p.Name)
		}
	}
	if err := r.compilers(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "gpuscale-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, p := range r.programs {
		s := oci.Spec{Name: p.Name + ":" + r.version, Entrypoint: []string{"/" + p.Name}, User: p.user, Labels: r.labels(p), Created: r.source.at}
		if p.Cgo {
			s.Base = glibc
		}
		for _, arch := range r.arches {
			b, err := r.build(ctx, dir, p, arch)
			if err != nil {
				return err
			}
			files, err := r.files(ctx, b, trust)
			if err != nil {
				return err
			}
			s.Platforms = append(s.Platforms, oci.Platform{Arch: arch, Files: files})
		}
		if err := r.writeImage(s, p.Name); err != nil {
			return err
		}
	}
	return nil
}

// files are what an image has of ours. A base's own certificates are replaced:
// all images trust the same authorities.
func (r *release) files(ctx context.Context, b built, trust []byte) ([]pack.File, error) {
	own, err := os.ReadFile(filepath.Join(r.source.dir, "LICENSE"))
	if err != nil {
		return nil, err
	}
	others, err := licences.Collect(ctx, r.source.dir, b.info)
	if err != nil {
		return nil, err
	}
	bom, err := r.sbom(b)
	if err != nil {
		return nil, err
	}
	docs := "usr/share/doc/" + b.Name + "/"
	return []pack.File{
		{Name: b.Name, Mode: 0o755, Data: b.data},
		{Name: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, Data: trust},
		{Name: docs + "LICENSE", Mode: 0o644, Data: own},
		{Name: docs + "THIRD-PARTY-LICENSES.txt", Mode: 0o644, Data: others},
		{Name: docs + "sbom.cdx.json", Mode: 0o644, Data: bom},
	}, nil
}

func (r *release) labels(p program) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    p.Name,
		"org.opencontainers.image.version":  r.version,
		"org.opencontainers.image.revision": r.source.commit,
		"org.opencontainers.image.created":  r.source.at.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":   "https://github.com/gpuscale/gpuscale",
	}
}

func (r *release) writeImage(s oci.Spec, name string) error {
	files, digest, err := oci.Layout(s)
	if err != nil {
		return err
	}
	top := filepath.Join(r.out, name)
	if _, err := os.Stat(filepath.Join(top, "oci-layout")); err == nil {
		err = os.RemoveAll(top)
		if err != nil {
			return err
		}
	} else if _, err := os.Stat(top); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is no OCI layout: it is not replaced", top)
	}
	for _, f := range files {
		file := filepath.Join(top, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, f.Data, f.Mode); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.log, "%s  %s (%s)\n", digest, top, strings.Join(r.arches, ", "))
	return nil
}
