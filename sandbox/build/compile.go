package build

import (
	"bufio"
	"context"
	"fmt"
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
	// A folder of its own for temporary files: an interrupted go leaves them.
	tmp, err := os.MkdirTemp(os.Getenv("GOTMPDIR"), "gpuscale-build-")
	if err != nil {
		return fmt.Errorf("compiling %s: %w", t.title, err)
	}
	defer os.RemoveAll(tmp)
	in := filepath.Join(o.Root, filepath.FromSlash(t.module))
	if t.source != nil {
		if in, err = t.source.Dir(ctx); err != nil {
			return err
		}
		file, err := t.source.modfile(in, tmp)
		if err != nil {
			return err
		}
		t.args = append([]string{"-modfile=" + file}, t.args...)
	}
	args := append([]string{"build", "-v"}, t.args...)
	args = append(args, "-o", dir+"/"+t.output)
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkgs...)...)
	cmd.Dir = in
	cgo := "CGO_ENABLED=0"
	if t.cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd.Env = append(os.Environ(), cgo, "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "GOTMPDIR="+tmp, "PWD="+cmd.Dir)
	return run(ctx, o, t, cmd)
}

// run runs a go build. Its last messages are in the error.
func run(ctx context.Context, o Options, t target, cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its compilers can be ended with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 3 * time.Second
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("compiling %s: %w", t.title, err)
	}
	p := newProgress(o.Out, t)
	defer p.close()
	var messages []string
	in := bufio.NewScanner(stderr)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		if p.line(in.Text()) {
			messages = append(messages, in.Text())
		}
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // compilers that did not listen
		return fmt.Errorf("compiling %s was interrupted (what is compiled is kept, the next time goes on from there): %w", t.title, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("compiling %s: %w\n  %s\n%s", t.title, err, strings.Join(messages[max(0, len(messages)-15):], "\n  "), needs)
	}
	return nil
}

// needs is what a first compilation needs of the machine.
const needs = "The first time this needs the network or a module mirror (GOPROXY, HTTPS_PROXY), 3 GiB of disk (GOCACHE, TMPDIR) and 3 GiB of memory (less with GOMAXPROCS=1)."
