package docs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// commandTimeout is far more than any command takes that ends.
const commandTimeout = time.Minute

// typist types what a page says, from its first line to its last, in a folder of its
// own that looks like the checkout and has the files that the page shows.
type typist struct {
	*bed
	page    Page
	dir     string
	forward map[string]string // local ports that the page forwards, and the free ones in their place
	exports string            // what stays set between commands
	ends    []func()          // undo what the page has done, last first
}

func (b *bed) newTypist(p Page) (*typist, error) {
	dir, err := os.MkdirTemp(b.dir, "page-")
	if err != nil {
		return nil, err
	}
	w := &typist{bed: b, page: p, dir: dir, forward: map[string]string{}}
	entries, err := os.ReadDir(b.root)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if err := os.Symlink(filepath.Join(b.root, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	install, err := os.ReadFile(filepath.Join(b.root, "docs/install.md"))
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := w.write(name, text); err != nil {
			return nil, err
		}
	}
	for _, block := range append(Parse("docs/install.md", string(install)).Blocks, p.Blocks...) {
		if name := block.FileName(); name != "" {
			if err := w.write(name, block.Text); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

func (w *typist) write(name, text string) error {
	return os.WriteFile(filepath.Join(w.dir, name), []byte(w.addresses(text)), 0o600)
}

// close ends what the page left running and removes what it has made: the next page
// finds the world as it was.
func (w *typist) close() {
	for _, end := range slices.Backward(w.ends) {
		end()
	}
}

// addresses puts what can be reached here in place of what a cluster's network leads to.
func (w *typist) addresses(text string) string {
	return regexp.MustCompile(`http://prometheus[a-z.-]*:9090`).ReplaceAllString(text, w.cluster.PrometheusURL())
}

// as says how a command is typed here: placeholders filled in, what writes without
// effect, at the ports that are free.
func (w *typist) as(text string) string {
	text = remark.ReplaceAllString(text, "")
	for _, s := range substitutions {
		text = s.what.ReplaceAllString(text, s.by)
	}
	text = goRun.ReplaceAllString(text, "gpuscale-$1")
	text = strings.ReplaceAll(text, " BIN/", " "+w.bin+"/")
	text = writes.ReplaceAllString(text, "$0 --dry-run=server")
	text = installs.ReplaceAllString(text, "helm upgrade --install --dry-run=server ")
	text = uninstalls.ReplaceAllString(text, "$0 --dry-run")
	for _, p := range []struct {
		port string
		here int
	}{{"9090", w.prometheusPort()}, {"9402", w.autoscaler}, {"9400", w.exporter}, {"8443", w.adapter}} {
		here := w.forward[p.port]
		if here == "" {
			here = strconv.Itoa(p.here)
		}
		text = regexp.MustCompile(`\b(localhost|127\.0\.0\.1):`+p.port+`\b`).ReplaceAllString(text, "${1}:"+here)
	}
	if explains.MatchString(text) && !strings.Contains(text, "--url") && !strings.Contains(text, " -f ") {
		// No network leads to the pod that holds the lease.
		text += fmt.Sprintf(" --url http://localhost:%d", w.autoscaler)
	}
	return w.addresses(text)
}

func (w *typist) prometheusPort() int {
	_, port, _ := strings.Cut(strings.TrimPrefix(w.cluster.PrometheusURL(), "http://"), ":")
	n, _ := strconv.Atoi(port)
	return n
}

var (
	// Commands of kubectl that change what is there. They are typed without effect.
	writes = regexp.MustCompile(`\bkubectl((?:\s+(?:-n|--namespace|--context)[ =]\S+)*)\s+(?:apply|label|annotate|patch|delete|replace|scale|autoscale|run|expose|cordon|uncordon|drain|taint|set \S+|create -f)\b`)
	// Those that make something new do, since what follows needs it; it goes with the page.
	creates = regexp.MustCompile(`^kubectl((?:\s+(?:-n|--namespace)[ =]\S+)*)\s+create\s+(?:namespace|configmap|secret|serviceaccount|(?:cluster)?role(?:binding)?|job)\s[^|>&;]*$`)
	// The release is there, and stays as it is.
	installs   = regexp.MustCompile(`\bhelm (?:install|upgrade(?: --install)?) `)
	uninstalls = regexp.MustCompile(`\bhelm(?: -n \S+)? uninstall\b`)
	// A comment behind a command, where something is added to its end.
	remark   = regexp.MustCompile(`\s+# [^'"]*$`)
	explains = regexp.MustCompile(`^gpuscale-autoscaler explain `)
	forwards = regexp.MustCompile(`\bkubectl\b.*\bport-forward\b.*?\s(\d+)(?::(\d+))?(\s*&)?\s*$`)
	serves   = regexp.MustCompile(`^gpuscale-dashboards preview `)
)

// run a command as a reader would. One that serves goes on until the page ends. The
// output is that of both streams.
func (w *typist) run(ctx context.Context, c Command) (string, error) {
	text := w.as(c.Text)
	forward, create := forwards.FindStringSubmatch(remark.ReplaceAllString(c.Text, "")), creates.FindStringSubmatch(text)
	switch {
	case forward != nil:
		return w.portForward(strings.TrimRight(strings.TrimSpace(text), "& "), forward[1], forward[2])
	case serves.MatchString(c.Text):
		return w.serve(regexp.MustCompile(`(--listen[ =]127\.0\.0\.1):\d+`).ReplaceAllString(text, "$1:0"), "boards ")
	case create != nil:
		return w.create(ctx, text, create[1])
	case strings.HasPrefix(c.Text, "export "):
		w.exports += text + "\n"
	}
	return w.bash(ctx, text)
}

// create makes an object that is not there yet, until the page ends.
func (w *typist) create(ctx context.Context, text, namespace string) (string, error) {
	out, err := w.bash(ctx, text+" -o name")
	if err != nil {
		if strings.Contains(out, "AlreadyExists") {
			err = nil // the world has it
		}
		return out, err
	}
	w.ends = append(w.ends, func() {
		_, _ = w.bash(context.Background(), "kubectl"+namespace+" delete --wait=false "+strings.TrimSpace(out))
	})
	return out, nil
}

// bash runs a text as it stands.
func (w *typist) bash(ctx context.Context, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := w.command(ctx, w.exports+text)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left in the background
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("not over after %s: %w", commandTimeout, err)
	}
	return out.String(), err
}

func (w *typist) command(ctx context.Context, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", text)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=" + w.bin + ":" + os.Getenv("PATH"), "HOME=" + filepath.Join(w.bed.dir, "home"), "TMPDIR=" + w.bed.dir,
		"KUBECONFIG=" + w.cluster.Kubeconfig(), "NO_COLOR=1",
	}
	// The whole pipeline goes when its time is over.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	return cmd
}

// portForward starts one at a free local port.
func (w *typist) portForward(text, local, remote string) (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	if remote == "" {
		remote = local
	}
	free := strconv.Itoa(ports[0])
	out, err := w.serve(text[:strings.LastIndexAny(text, " \t")]+" "+free+":"+remote, "Forwarding from")
	if err == nil {
		w.forward[local] = free
	}
	return out, err
}

// serve starts a command that goes on, and waits until it says that it serves.
func (w *typist) serve(text, says string) (string, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := w.command(ctx, w.exports+"exec "+text)
	out, in, err := os.Pipe()
	if err != nil {
		cancel()
		return "", err
	}
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		cancel()
		return "", errors.Join(err, in.Close(), out.Close())
	}
	_ = in.Close()
	timer := time.AfterFunc(commandTimeout, cancel)
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if !strings.HasPrefix(lines.Text(), says) || !timer.Stop() {
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, out) }() // or it would wait for a reader
		w.ends = append(w.ends, func() {
			cancel()
			_ = cmd.Wait() // killed
			_ = out.Close()
		})
		return said.String(), nil
	}
	cancel()
	return said.String(), errors.Join(fmt.Errorf("it ended before it said %q", says), cmd.Wait(), out.Close())
}

// place is where a command stands.
func (c Command) place() string { return fmt.Sprintf("%s:%d", c.Page, c.Line) }
