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

// compile runs go build for the target into dir. o has its defaults.
func compile(ctx context.Context, o Options, t target, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder for %s (another place: %s=<folder>): %w", t.title, CacheEnv, err)
	}
	unlock, err := lock(ctx, filepath.Join(dir, t.name+".lock"), func() {
		fmt.Fprintf(o.Out, "another sandbox is compiling %s, waiting for it\n", t.title)
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", t.title, err)
	}
	defer unlock()
	// A separate folder for temporary files, since an interrupted go leaves them behind. It is beside the binaries, so
	// Go can rename them into place.
	tmp, err := os.MkdirTemp(dir, "tmp-")
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
	p := newProgress(o.Out, t, !t.complete(dir))
	defer p.close()
	if err := run(ctx, t, cmd, p); err != nil {
		return err
	}
	for name, to := range t.links {
		path := filepath.Join(dir, name)
		if have, err := os.Readlink(path); err == nil && have == to {
			continue
		}
		if err := os.Symlink(to, path); err != nil {
			return fmt.Errorf("linking %s: %w", name, err)
		}
	}
	return nil
}

// run runs a go build. Its last messages are in the error.
func run(ctx context.Context, t target, cmd *exec.Cmd, p *progress) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its compilers can be killed with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 3 * time.Second
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("compiling %s: %w", t.title, err)
	}
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // compilers that ignored the signal
		return fmt.Errorf("compiling %s was interrupted (what is compiled is kept, the next time goes on from there): %w", t.title, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("compiling %s: %w\n  %s\n%s", t.title, err, strings.Join(messages[max(0, len(messages)-15):], "\n  "), needs)
	}
	return nil
}

// needs says what the first compilation requires.
const needs = "The first time this needs the network or a module mirror (GOPROXY, HTTPS_PROXY), 3 GiB of disk (GOCACHE, TMPDIR) and 3 GiB of memory (less with GOMAXPROCS=1)."
