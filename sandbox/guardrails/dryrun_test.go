package guardrails

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestDryRun runs the program itself. With --dry-run it logs the nodes that it would add, and the API
// server's audit log has no write of it at all, not even a Lease or an Event. Without --dry-run, on the same
// cluster, it writes and adds nodes, so the count of writes can fail.
func TestDryRun(t *testing.T) {
	w := newWorld(t, setup{})
	w.pool("h100", 1, 4)
	w.until("the fleet", w.has("h100", 1))
	w.work("train", "h100", 3, perNode)
	w.await("two wait", w.waits("train", 2))
	status := w.get("h100").ResourceVersion // only the autoscaler writes the status of pools

	p := w.program("dry", "--dry-run")
	w.await("it logs its decision twice, or acts", func() error {
		if n := p.says("action", "scale-up", "dry-run"); n < 2 && len(w.nodes("h100")) == 1 {
			return fmt.Errorf("%d times in its log", n)
		}
		return nil
	})
	p.Stop(10 * time.Second)
	if writes := p.writes(); len(writes) > 0 {
		t.Errorf("writes of a dry run: %v", writes)
	}
	if got := w.get("h100").ResourceVersion; got != status {
		t.Error("the pool was written to")
	}
	if n := len(w.nodes("h100")); n != 1 {
		t.Errorf("%d nodes", n)
	}

	p = w.program("wet")
	w.await("it adds nodes", func() error { // other tests check how many
		if n := len(w.nodes("h100")); n < 3 {
			return fmt.Errorf("%d nodes", n)
		}
		return nil
	})
	p.Stop(10 * time.Second)
	if len(p.writes()) == 0 {
		t.Error("no writes of a program that added two nodes: they are not counted")
	}
}

// program is an autoscaler process.
type program struct {
	*proc.Process
	w     *world
	log   string
	begun time.Time
}

// groups serves the node groups of KWOK's pools to programs, and returns the configuration for it.
func (w *world) groups() string {
	w.t.Helper()
	address, stop, err := nodegroups.New(w.Admin, w.Admin).Serve()
	w.must(err)
	w.t.Cleanup(stop)
	return fmt.Sprintf("externalGRPC: {%s: {address: %q}}\n", nodegroups.Name, address)
}

func (w *world) program(name string, flags ...string) *program {
	w.t.Helper()
	dir := w.t.TempDir()
	config := filepath.Join(dir, name+".yaml")
	w.must(os.WriteFile(config, []byte("leaderElection: {namespace: "+w.namespace()+"}\ninterval: 200ms\n"+w.groups()), 0o600))
	p := &program{w: w, log: filepath.Join(dir, name+".log"), begun: time.Now()}
	p.Process = testenv.Beside(w.t, proc.Spec{
		Name: "gpuscale-autoscaler-" + name, Path: w.autoscaler(), Log: p.log,
		Args: append(flags, "--config="+config, "--kubeconfig="+w.Cluster.Kubeconfig(), "--listen="+testenv.FreeAddress(w.t)),
	})
	return p
}

// programs compiles our programs when a test first needs one.
var programs = sync.OnceValues(func() (string, error) {
	return build.Programs(context.Background(), build.Options{Out: os.Stderr})
})

func (w *world) autoscaler() string {
	w.t.Helper()
	folder, err := programs()
	w.must(err)
	return filepath.Join(folder, "gpuscale-autoscaler")
}

// says counts the lines of the program's log that contain all of the words.
func (p *program) says(words ...string) int {
	text, err := os.ReadFile(p.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.w.t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// writes returns the program's writes, which are recognized by its user agent.
func (p *program) writes() []testenv.Call {
	return p.w.Calls(p.w.t, func(e testenv.Call) bool {
		return strings.HasPrefix(e.UserAgent, "gpuscale-autoscaler/") && e.RequestReceivedTimestamp.After(p.begun)
	})
}
