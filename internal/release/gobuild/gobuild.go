package gobuild

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Program is a thing to compile.
type Program struct {
	Name    string // "gpuscale-exporter": of the file, the archive and the image
	Package string // "./exporter"
	Cgo     bool   // binds a C library at run time, and so needs glibc
}

// Options say what to compile and into what.
type Options struct {
	Dir     string // the module's root; empty is the working directory
	Program Program
	Arch    string // GOARCH; the system is always Linux
	Version string
	Commit  string
	Output  string
}

// buildinfo is where the linker puts what a binary says about itself.
const buildinfo = "github.com/gpuscale/gpuscale/internal/buildinfo"

// Build compiles. A missing C compiler is an error that names its package.
func Build(ctx context.Context, o Options) error {
	env, err := environment(os.Environ(), o)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", arguments(o)...)
	cmd.Dir, cmd.Env = o.Dir, env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s for linux/%s: %w\n%s", o.Program.Name, o.Arch, err, stderr.String())
	}
	return nil
}

func arguments(o Options) []string {
	return []string{
		"build",
		"-trimpath",       // no folder's name in the binary
		"-buildvcs=false", // a checkout and a tarball of it are the same source
		"-mod=readonly",
		// -w leaves out DWARF, half of the size. The symbol table stays: with it
		// govulncheck can say which vulnerable function a binary really has.
		// The build ID would be of the C compiler's path, too.
		"-ldflags", "-w -buildid= -X " + buildinfo + ".version=" + o.Version + " -X " + buildinfo + ".commit=" + o.Commit,
		"-o", o.Output,
		o.Program.Package,
	}
}

// steering are the variables that change what go writes, and so are not
// inherited. The C compiler may be chosen.
var steering = []string{
	"GOFLAGS=", "GOOS=", "GOARCH=", "GOAMD64=", "GOARM64=", "GOEXPERIMENT=", "GOFIPS140=", "GODEBUG=", "GOWORK=",
	"CGO_ENABLED=", "CGO_CFLAGS=", "CGO_CPPFLAGS=", "CGO_CXXFLAGS=", "CGO_FFLAGS=", "CGO_LDFLAGS=", "CC=",
}

func environment(inherited []string, o Options) ([]string, error) {
	var env []string
	cc := ""
	for _, v := range inherited {
		if own, ok := strings.CutPrefix(v, "CC_"+o.Arch+"="); ok {
			cc = own
		}
		keep := true
		for _, s := range steering {
			keep = keep && !strings.HasPrefix(v, s)
		}
		if keep {
			env = append(env, v)
		}
	}
	env = append(env, "GOOS=linux", "GOARCH="+o.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOTOOLCHAIN=local")
	if !o.Program.Cgo {
		return append(env, "CGO_ENABLED=0"), nil
	}
	if cc == "" {
		var err error
		if cc, err = compiler(o.Arch); err != nil {
			return nil, fmt.Errorf("%s for linux/%s: %w", o.Program.Name, o.Arch, err)
		}
	}
	// No -g: what it would write is left out by -w. What NVIDIA calls deprecated
	// in its own headers would bury what really went wrong.
	return append(env, "CGO_ENABLED=1", "CC="+cc, "CGO_CFLAGS=-O2 -Wno-deprecated-declarations", "CGO_LDFLAGS="), nil
}
