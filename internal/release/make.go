package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuscale/gpuscale/internal/release/changelog"
	"github.com/gpuscale/gpuscale/internal/release/licences"
	"github.com/gpuscale/gpuscale/internal/release/pack"
	"github.com/gpuscale/gpuscale/internal/release/vuln"
)

// release is what one run makes.
type release struct {
	source   source
	version  string
	snapshot bool
	out      string
	arches   []string
	programs []program
	scan     vuln.Options // of the programs as they were built
	accept   string       // why known vulnerabilities are released all the same

	written []string     // names in out, in the order of writing
	said    bytes.Buffer // what govulncheck says
	log     io.Writer
}

func makeCommand(ctx context.Context, args []string, out io.Writer) error {
	var c common
	var tool, accept string
	flags := flag.NewFlagSet("release make", flag.ContinueOnError)
	c.add(flags, "dist")
	flags.StringVar(&tool, "govulncheck", "", "where govulncheck is; it is built there if it is not")
	flags.StringVar(&accept, "vulnerable", "", "release although vulnerabilities are known: the reason, for VULNERABILITIES.txt")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := c.release()
	if err != nil {
		return err
	}
	r.log, r.accept, r.scan = out, accept, vuln.Options{Tool: tool, Install: govulncheck, DB: os.Getenv("GOVULNDB")}
	return r.make(ctx)
}

// make writes everything. The cheap things that can stop a release come first.
func (r *release) make(ctx context.Context) error {
	notes, err := r.notes()
	if err != nil {
		return err
	}
	if err := r.compilers(ctx); err != nil {
		return err
	}
	if err := r.empty(); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return r.write("RELEASE_NOTES.md", notes) },
		r.chart, r.crds, r.dashboards,
		func() error { return r.binaries(ctx) },
		// What is known of vulnerabilities is of the day, the sums are of the commit.
		r.sums,
		func() error { return r.write("VULNERABILITIES.txt", r.said.Bytes()) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) notes() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.source.dir, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	sections, err := changelog.Parse(string(text))
	if err != nil {
		return nil, err
	}
	section, date := r.version, ""
	if r.snapshot {
		section = changelog.Unreleased
	}
	s, err := changelog.Notes(sections, section)
	if err != nil {
		return nil, err
	}
	if s.Date != "" {
		date = " / " + s.Date
	}
	return fmt.Appendf(nil, "# gpuscale %s%s\n\nCommit %s.\n\n%s\n", r.version, date, r.source.commit, s.Body), nil
}

// empty makes out an empty folder. One that holds something else than a release
// is left alone: -out is easily mistyped.
func (r *release) empty() error {
	entries, err := os.ReadDir(r.out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(r.out, "RELEASE_NOTES.md")); err != nil {
			return fmt.Errorf("%s holds no release: it is not emptied", r.out)
		}
		if err := os.RemoveAll(r.out); err != nil {
			return err
		}
	}
	return os.MkdirAll(r.out, 0o755)
}

func (r *release) write(name string, data []byte) error {
	if err := os.WriteFile(filepath.Join(r.out, name), data, 0o644); err != nil {
		return err
	}
	r.written = append(r.written, name)
	fmt.Fprintf(r.log, "%9d  %s\n", len(data), name)
	return nil
}

// binaries writes an archive and an SBOM for each program and architecture, and
// asks govulncheck about them.
func (r *release) binaries(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "gpuscale-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, p := range r.programs {
		for _, arch := range r.arches {
			b, err := r.build(ctx, dir, p, arch)
			if err != nil {
				return err
			}
			if err := r.archive(ctx, b); err != nil {
				return err
			}
			if err := r.scanned(ctx, b); err != nil {
				return err
			}
			if err := os.Remove(b.file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) archive(ctx context.Context, b built) error {
	name := fmt.Sprintf("%s-%s-linux-%s", b.Name, r.version, b.arch)
	others, err := licences.Collect(ctx, r.source.dir, b.info)
	if err != nil {
		return err
	}
	own, err := os.ReadFile(filepath.Join(r.source.dir, "LICENSE"))
	if err != nil {
		return err
	}
	data, err := pack.TarGz([]pack.File{
		{Name: name + "/" + b.Name, Mode: 0o755, Data: b.data},
		{Name: name + "/LICENSE", Mode: 0o644, Data: own},
		{Name: name + "/THIRD-PARTY-LICENSES.txt", Mode: 0o644, Data: others},
	}, r.source.at)
	if err != nil {
		return err
	}
	if err := r.write(name+".tar.gz", data); err != nil {
		return err
	}
	bom, err := r.sbom(b)
	if err != nil {
		return err
	}
	return r.write(name+".cdx.json", bom)
}

// scanned looks for known vulnerabilities in the very file that is released.
func (r *release) scanned(ctx context.Context, b built) error {
	o := r.scan
	o.Args, o.Out = []string{"-mode=binary", b.file}, &r.said
	answer, why := vuln.Check(ctx, o)
	line := answer.Say(b.Name+" linux/"+b.arch, why)
	fmt.Fprintln(&r.said, line)
	fmt.Fprintln(r.log, line)
	if answer != vuln.Found {
		return nil
	}
	if r.accept == "" {
		return fmt.Errorf("%s has known vulnerabilities (-vulnerable WHY releases it all the same):\n%s", b.Name, r.said.String())
	}
	fmt.Fprintf(&r.said, "released all the same: %s\n", r.accept)
	return nil
}

func (r *release) sums() error {
	var out strings.Builder
	for _, name := range sorted(r.written) {
		data, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%x  %s\n", sha256.Sum256(data), name)
	}
	return r.write("SHA256SUMS", []byte(out.String()))
}
