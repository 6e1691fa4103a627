package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage: release COMMAND [flags]

  make     archives, SBOMs, chart, bundles, notes and SHA256SUMS
  image    OCI layouts, without a Docker engine
  program  one program, without git, for the Dockerfile
  vuln     govulncheck; "NOT CHECKED" where it could not look
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	switch args[0] {
	case "make":
		return makeCommand(ctx, args[1:], out)
	case "image":
		return imageCommand(ctx, args[1:], out)
	case "program":
		return programCommand(ctx, args[1:])
	case "vuln":
		return vulnCommand(ctx, args[1:], out)
	default:
		return fmt.Errorf("unknown command %q\n%s", args[0], usage)
	}
}

// common are the flags of make and image.
type common struct {
	version, out, arches, only string
	snapshot                   bool
}

func (c *common) add(fs *flag.FlagSet, out string) {
	fs.StringVar(&c.version, "version", "", "version, as 0.1.0 or v0.1.0 (required)")
	fs.StringVar(&c.out, "out", out, "folder to write into; what was in it goes")
	fs.StringVar(&c.arches, "arch", "amd64,arm64", "architectures")
	fs.StringVar(&c.only, "only", "", "programs, as adapter,report; empty means all")
	fs.BoolVar(&c.snapshot, "snapshot", false, "not a release: uncommitted changes are allowed, the notes are those of Unreleased")
}

func (c *common) release() (*release, error) {
	version, err := parseVersion(c.version)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(programs, c.only)
	if err != nil {
		return nil, err
	}
	src, err := readSource(".", c.snapshot)
	if err != nil {
		return nil, err
	}
	return &release{source: src, version: version, snapshot: c.snapshot, out: c.out, arches: strings.Split(c.arches, ","), programs: chosen}, nil
}
