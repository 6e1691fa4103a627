package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
)

// lab is where exporters are measured.
type lab struct{ binary, library, dir string }

// setup is an exporter and the machine it is on.
type setup struct {
	remote          bool
	gpus, instances int
	gzip            bool
	accept          string
	args            []string
}

// figures are what was measured of a setup.
type figures struct {
	series, bytes int
	p50, p99      time.Duration
	cpu           time.Duration // of the exporter, a scrape
	rss           int64         // bytes
	idle          float64       // part of a core without scrapes
}

// exporter is a running one.
type exporter struct {
	cmd    *exec.Cmd
	base   string
	setup  setup
	client http.Client
	body   bytes.Buffer // of the last answer: a scraper uses its own again, too
	engine *fakedcgm.Engine
}

// start runs an exporter and waits until it has data.
func (l *lab) start(ctx context.Context, s setup) (*exporter, error) {
	state := filepath.Join(l.dir, "state")
	if err := machine(s.gpus, s.instances).Write(state); err != nil {
		return nil, err
	}
	x := &exporter{setup: s, client: http.Client{Transport: &http.Transport{DisableCompression: true}}}
	args := append([]string{"-a", "127.0.0.1:0", "--node", "node-1"}, s.args...)
	if s.remote {
		engine, err := fakedcgm.StartEngine(ctx, l.library, "127.0.0.1:0", state)
		if err != nil {
			return nil, err
		}
		x.engine = engine
		args = append(args, "-r", engine.Address)
	}
	if s.gzip {
		args = append(args, "--web-gzip")
	}
	x.cmd = exec.CommandContext(ctx, l.binary, args...)
	x.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+l.library, fakedcgm.EnvState+"="+state)
	stderr, err := x.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := x.cmd.Start(); err != nil {
		x.stop()
		return nil, fmt.Errorf("starting the exporter: %w", err)
	}
	if x.base, err = address(stderr); err == nil {
		err = x.waitReady(ctx)
	}
	if err != nil {
		x.stop()
		return nil, err
	}
	return x, nil
}

var serving = regexp.MustCompile(`msg=serving address=(\S+)`)

// address finds where it serves, and reads on so that its log is never full.
func address(log io.Reader) (string, error) {
	lines, seen := bufio.NewScanner(log), ""
	for lines.Scan() {
		if m := serving.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			return "http://" + m[1], nil
		}
		seen += lines.Text() + "\n"
	}
	return "", fmt.Errorf("the exporter ended before it served:\n%s", seen)
}

func (x *exporter) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		body, err := x.get("/readyz")
		if err == nil && bytes.HasPrefix(body, []byte("ok")) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("never ready: %s: %w", body, errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (x *exporter) stop() {
	if x.cmd.Process != nil {
		_ = x.cmd.Process.Signal(syscall.SIGTERM)
		_ = x.cmd.Wait()
	}
	if x.engine != nil {
		x.engine.Kill()
	}
}

// get returns the body, which stands until the next get.
func (x *exporter) get(path string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, x.base+path, nil)
	if err != nil {
		return nil, err
	}
	if x.setup.accept != "" {
		request.Header.Set("Accept", x.setup.accept)
	}
	if x.setup.gzip {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	response, err := x.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	x.body.Reset()
	_, err = x.body.ReadFrom(response.Body)
	return x.body.Bytes(), err
}

// measure scrapes over one kept connection, then leaves the exporter idle.
func (l *lab) measure(ctx context.Context, s setup, o options) (figures, error) {
	x, err := l.start(ctx, s)
	if err != nil {
		return figures{}, err
	}
	defer x.stop()
	var f figures
	for range 20 { // buffers and caches as they are in the long run
		if _, err := x.get("/metrics"); err != nil {
			return f, err
		}
	}
	before, took := cpuTime(x.cmd.Process.Pid), make([]time.Duration, 0, o.scrapes)
	for range o.scrapes {
		began := time.Now()
		body, err := x.get("/metrics")
		if err != nil {
			return f, err
		}
		took = append(took, time.Since(began))
		f.bytes = len(body)
	}
	f.cpu = (cpuTime(x.cmd.Process.Pid) - before) / time.Duration(o.scrapes)
	slices.Sort(took)
	f.p50, f.p99 = took[len(took)/2], took[len(took)*99/100]
	before, began := cpuTime(x.cmd.Process.Pid), time.Now()
	select {
	case <-ctx.Done():
		return f, ctx.Err()
	case <-time.After(o.idle):
	}
	f.idle = (cpuTime(x.cmd.Process.Pid) - before).Seconds() / time.Since(began).Seconds()
	f.rss = rss(x.cmd.Process.Pid)
	f.series, err = x.countSeries()
	return f, err
}

// countSeries counts lines of the text format, which every exporter serves.
func (x *exporter) countSeries() (n int, err error) {
	x.setup.accept, x.setup.gzip = "", false
	body, err := x.get("/metrics")
	for line := range strings.Lines(string(body)) {
		if line[0] != '#' {
			n++
		}
	}
	return n, err
}

// cpuTime is what a process has used of the processor so far, with the threads
// that it has now; 0 where unknown.
func cpuTime(pid int) time.Duration {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0
	}
	total := int64(0)
	for _, task := range tasks {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		var onCPU int64
		if _, scan := fmt.Sscan(string(text), &onCPU); err == nil && scan == nil {
			total += onCPU
		}
	}
	return time.Duration(total)
}

// rss is a process' resident memory in bytes; 0 where unknown.
func rss(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "\nVmRSS:")
	var kib int64
	_, _ = fmt.Sscan(rest, &kib)
	return kib << 10
}
