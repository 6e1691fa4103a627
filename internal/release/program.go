package main

import (
	"context"
	"errors"
	"flag"

	"github.com/gpuscale/gpuscale/internal/release/gobuild"
)

// programCommand compiles one program as a release does. It asks no git: where
// an image is built there is none.
func programCommand(ctx context.Context, args []string) error {
	var name, version string
	var o gobuild.Options
	flags := flag.NewFlagSet("release program", flag.ContinueOnError)
	flags.StringVar(&name, "program", "", "adapter, agent, autoscaler, exporter or report")
	flags.StringVar(&o.Arch, "arch", "amd64", "architecture")
	flags.StringVar(&version, "version", "", "version, as 0.1.0")
	flags.StringVar(&o.Commit, "commit", "unknown", "commit of the source")
	flags.StringVar(&o.Output, "o", "", "file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if name == "" || o.Output == "" {
		return errors.New("-program and -o are required")
	}
	chosen, err := choose(programs, name)
	if err != nil {
		return err
	}
	if len(chosen) != 1 {
		return errors.New("-program names one program")
	}
	if o.Version, err = parseVersion(version); err != nil {
		return err
	}
	o.Program = chosen[0].Program
	if err := gobuild.Build(ctx, o); err != nil {
		return err
	}
	return gobuild.CheckLinkage(o.Output, o.Program.Cgo)
}
