package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// compile runs go build for the target into dir.
func compile(ctx context.Context, o Options, t target, dir string) error {
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("compiling %s: %w", t.title, CheckTools())
	}
	if !t.again || !t.complete(dir) { // a recompiled target replaces its old files
		if err := checkDisk(t, dir); err != nil {
			return err
		}
	}
	p := newProgress(o.Out, t)
	defer p.close()
	in := filepath.Join(o.Root, filepath.FromSlash(t.module))
	if t.source != nil {
		mod, err := os.MkdirTemp(tempDir(), "gpuscale-mod-")
		if err != nil {
			return fmt.Errorf("compiling %s: %w", t.title, err)
		}
		defer os.RemoveAll(mod)
		if in, err = t.source.Dir(ctx); err != nil {
			return err
		}
		file, err := t.source.modfile(in, mod)
		if err != nil {
			return err
		}
		t.args = append([]string{"-modfile=" + file}, t.args...)
	}

	// What would be compiled, which is less than everything when Go's own
	// cache has some of it. Modules that are missing are fetched here.
	var list bytes.Buffer
	args := append([]string{"list", "-deps", "-f", "{{if and .Stale (ne .Name \"main\")}}{{.ImportPath}}{{end}}"}, t.args...)
	if err := runGo(ctx, in, t, &list, p.downloading, append(args, t.pkgs...)...); err != nil {
		return err
	}
	p.compiling(len(strings.Fields(list.String())))

	args = append([]string{"build", "-v"}, t.args...)
	args = append(args, "-o", filepath.Join(dir, t.output)+trailingSlash(t.output))
	return runGo(ctx, in, t, io.Discard, p.compiled, append(args, t.pkgs...)...)
}

func trailingSlash(output string) string {
	if strings.HasSuffix(output, "/") {
		return "/" // go build takes it for a folder
	}
	return ""
}

// runGo runs the go command in the target's module, dir. Each line it writes to
// stderr goes to line and is kept for the error.
func runGo(ctx context.Context, dir string, t target, stdout io.Writer, line func(string), args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// A folder of its own for go's temporary files: an interrupted go leaves them.
	tmp, err := os.MkdirTemp(tempDir(), "gpuscale-build-")
	if err != nil {
		return fmt.Errorf("compiling %s: making a folder for temporary files (another place: TMPDIR=<folder>): %w", t.title, err)
	}
	defer os.RemoveAll(tmp)
	cgo := "CGO_ENABLED=0"
	if t.cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo, "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "GOTMPDIR="+tmp, "PWD="+cmd.Dir)
	cmd.Stdout = stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its compilers can be ended with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 3 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fmt.Errorf("compiling %s: %w", t.title, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("compiling %s: %w", t.title, err)
	}
	var kept []string
	in := bufio.NewScanner(stderr)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line(in.Text())
		if kept = append(kept, in.Text()); len(kept) > 200 {
			kept = kept[100:]
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // compilers that did not listen
		return fmt.Errorf("compiling %s was interrupted (what is compiled is kept, the next time goes on from there): %w", t.title, ctx.Err())
	}
	if err != nil {
		return explain(t, err, kept)
	}
	return nil
}
