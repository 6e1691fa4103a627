// Command bootstrap compiles gpuscale-sandbox for the Makefile: with the
// progress and the plain words that the sandbox has for everything it compiles
// itself. It imports nothing that must be downloaded, so that it can report that
// there is no network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpuscale/gpuscale/sandbox/build"
)

func main() {
	file := flag.String("o", "", "file to compile gpuscale-sandbox into")
	ldflags := flag.String("ldflags", "", "flags of the linker")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := compile(ctx, *file, *ldflags)
	interrupted := ctx.Err() != nil
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if interrupted {
		os.Exit(130)
	}
	os.Exit(1)
}

func compile(ctx context.Context, file, ldflags string) error {
	if file == "" {
		return errors.New("bootstrap: -o says where gpuscale-sandbox goes")
	}
	if err := build.CheckTools(); err != nil {
		return err
	}
	return build.Sandbox(ctx, build.Options{}, file, ldflags)
}
