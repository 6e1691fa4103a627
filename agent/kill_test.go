package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/procstat"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Environment of the child process, which is an agent.
const (
	childEnv  = "GPUSCALE_TEST_AGENT_API"
	configEnv = "GPUSCALE_TEST_AGENT_CONFIG"
)

// child is an agent that ticks until the operation is over.
func child() {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	c, err := parseConfig(configEnv, []byte(os.Getenv(configEnv)))
	if err != nil {
		fail(err)
	}
	cluster, err := newCluster(&rest.Config{Host: os.Getenv(childEnv), QPS: -1}, "n")
	if err != nil {
		fail(err)
	}
	kubelet, err := dialKubelet(c.KubeletSocket, "")
	if err != nil {
		fail(err)
	}
	a := New(Options{Cluster: cluster, Hardware: hardware.New(c.Library, c.CallTimeout.Duration), Kubelet: kubelet, Config: c, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Now: func() time.Time { return start }})
	if err := a.Tick(context.Background()); err != nil {
		fail(err)
	}
	os.Exit(0)
}

// run starts an agent in a process of its own for one tick, and passes its process to started.
// killed is true if it did not end by itself.
func (b *bench) run(started func(*os.Process)) (killed bool) {
	b.t.Helper()
	config, err := yaml.Marshal(b.config)
	require.NoError(b.t, err)
	var output strings.Builder
	cmd := exec.CommandContext(b.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+b.api.URL, configEnv+"="+string(config))
	cmd.Stderr = &output
	require.NoError(b.t, cmd.Start())
	if started != nil {
		started(cmd.Process)
	}
	err = cmd.Wait()
	b.api.CloseClientConnections() // requests that it had sent are answered or lost, and have no later effect
	if err != nil && cmd.ProcessState.ExitCode() >= 0 {
		b.t.Fatalf("the agent failed: %v\n%s", err, output.String())
	}
	return err != nil
}

// stories are the operations during which an agent is killed.
func stories(t *testing.T) map[string]func() (b *bench, want string) {
	const before, after = "3g.40gb@0 1g.10gb@4 1g.10gb@5", "3g.40gb@0 2g.20gb@4"
	return map[string]func() (*bench, string){
		"forward": func() (*bench, string) {
			b := newBench(t, h100(t, 0, "!3g.40gb@0 1g.10gb@4 1g.10gb@5"))
			b.order(before, after)
			return b, after
		},
		"back": func() (*bench, string) {
			b := newBench(t, h100(t, 0, "!3g.40gb@0 2g.20gb@4"))
			r := b.order(before, after)
			b.api.set(contract.AgentAnnotation, contract.Answer{ID: r.ID, State: contract.AgentDone, Touched: true}.String())
			r.Undo = &contract.Undo{Since: b.now, Attempts: 1}
			b.api.set(contract.RecordAnnotation, r.String())
			return b, before
		},
	}
}

// settled checks the end of a story, after as many ticks as the agent would run by itself.
func (b *bench) settled(want string) {
	b.t.Helper()
	for range 3 {
		if a, err := contract.ParseAnswer(b.api.get(contract.AgentAnnotation)); err == nil && a.Undo == b.attempt() && a.Final() {
			break
		}
		b.tick()
	}
	if got := b.layout(); got != want {
		b.t.Errorf("the GPU is %s, want %s", got, want)
	}
	if busy := b.machine().GPUs[0].Instances[0]; !slices.Equal(busy.Computes, fakenvml.Whole(fakenvml.MIGUUID(0, 0))) {
		b.t.Errorf("the busy instance is now %+v", busy)
	}
	a := b.answer()
	if ok := a.State == contract.AgentDone && a.Undo == 0 || a.State == contract.AgentRestored && a.Undo == 1; !ok {
		b.t.Errorf("answer %+v", a)
	}
	b.api.mu.Lock()
	defer b.api.mu.Unlock()
	if len(b.api.plugins) != 1 || b.api.plugins[0] == "plugin-0" {
		b.t.Errorf("device plugin %v", b.api.plugins)
	}
	if b.api.made > 1 {
		b.t.Errorf("the device plugin was restarted %d times", b.api.made)
	}
}

func (b *bench) attempt() int {
	r, err := contract.ParseRecord(b.api.get(contract.RecordAnnotation))
	if err != nil || r.Undo == nil {
		return 0
	}
	return r.Undo.Attempts
}

// killed plays each story with an agent that dies at its n-th act, before or after it, for n = 1, 2, … until no agent
// dies any more: for at least that many n.
func killed(t *testing.T, least int, play func(b *bench, n int, after bool) (died bool)) {
	for name, begin := range stories(t) {
		t.Run(name, func(t *testing.T) {
			kills := 0
			for n, died := 1, true; died && !t.Failed(); n++ {
				died = false
				for _, after := range []bool{false, true} {
					b, want := begin()
					b.t = t
					if play(b, n, after) {
						died = true
						kills++
					}
					b.settled(want)
				}
			}
			if kills < least {
				t.Errorf("killed %d times, want at least %d", kills, least)
			}
		})
	}
}

// TestKilledAtEveryChange: kill -9 before and after each of the six changes of the hardware.
func TestKilledAtEveryChange(t *testing.T) {
	killed(t, 12, func(b *bench, n int, after bool) bool {
		b.state.Lines = fakenvml.Lines{"kill": fmt.Sprint(n, map[bool]string{true: " after", false: " before"}[after])}
		b.set(b.state)
		died := b.run(nil)
		b.state = b.machine()
		b.state.Lines = nil
		b.set(b.state)
		return died
	})
}

// TestKilledAtEveryWrite: kill -9 before and after each of at least four writes to the API server.
func TestKilledAtEveryWrite(t *testing.T) {
	killed(t, 8, func(b *bench, n int, after bool) bool {
		var process atomic.Pointer[os.Process]
		kill := func(at int) bool {
			p := process.Load()
			if at != n || p == nil {
				return false
			}
			process.Store(nil)
			_ = p.Kill()
			return true
		}
		if after {
			b.api.around(nil, func(at int) { kill(at) })
		} else {
			b.api.around(kill, nil)
		}
		defer process.Store(nil)
		return b.run(process.Store)
	})
}

// BenchmarkProgram measures the program's resources for eight GPUs with seven instances, idle and
// during changes of their layout. They are the source of the chart's resources. Fake driver and API
// server use their time elsewhere.
func BenchmarkProgram(b *testing.B) {
	program := filepath.Join(b.TempDir(), "gpuscale-agent")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	const ones = "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6"
	var gpus []fakenvml.GPU
	for i := range 8 {
		gpus = append(gpus, h100(b, i, ones))
	}
	n := newBench(b, gpus...)
	n.now = time.Now()
	n.config.Period = metav1.Duration{Duration: time.Second} // a tenth of the usual one
	n.config.LockFile = filepath.Join(filepath.Dir(n.path), "lock")
	pid := n.start(program)
	await.For(b, 2*time.Minute, "a first look", func() error { _, err := contract.ParseReport(n.api.get(contract.LayoutAnnotation)); return err })
	for b.Loop() {
		for i := range 10 {
			from, to := ones, "3g.40gb@0 3g.40gb@4"
			if i%2 == 1 {
				from, to = to, from
			}
			r := n.order(from, to, func(r *contract.Record) { r.ID = fmt.Sprint("op-", i) })
			await.For(b, 2*time.Minute, "a layout", func() error {
				if a, err := contract.ParseAnswer(n.api.get(contract.AgentAnnotation)); err != nil || a.ID != r.ID || a.State != contract.AgentDone {
					return fmt.Errorf("%+v: %w", a, err)
				}
				return nil
			})
			n.api.set(contract.RecordAnnotation, "")
			await.For(b, 2*time.Minute, "the end of it", func() error {
				if n.api.get(contract.AgentAnnotation) != "" {
					return errors.New("its answer is still there")
				}
				return nil
			})
		}
		before, looks := procstat.CPU(pid), n.api.looked()
		const idle = 30
		await.True(b, 10*time.Minute, "looks at a node that nothing happens on", func() bool { return n.api.looked()-looks >= idle })
		b.ReportMetric(float64((procstat.CPU(pid)-before).Milliseconds())/float64(n.api.looked()-looks), "cpu-ms/look")
	}
	memory := procstat.Memory(pid)
	for unit, bytes := range map[string]int64{"MiB-resident": memory.Now, "MiB-peak": memory.Peak, "MiB-of-files": memory.File} {
		b.ReportMetric(float64(bytes)/(1<<20), unit)
	}
}

// start runs the program against the bench's node until the test ends.
func (b *bench) start(program string) (pid int) {
	b.t.Helper()
	dir := filepath.Dir(b.path)
	config, err := yaml.Marshal(b.config)
	require.NoError(b.t, err)
	kubeconfig := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`, b.api.URL)
	for name, text := range map[string]string{"config.yaml": string(config), "kubeconfig": kubeconfig} {
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	output, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(b.t, err)
	cmd := exec.Command(program, "--node-name=n", "--pod=", "--listen=127.0.0.1:0", "--config="+filepath.Join(dir, "config.yaml"), "--kubeconfig="+filepath.Join(dir, "kubeconfig"))
	cmd.Stderr = output
	require.NoError(b.t, cmd.Start())
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(output.Name()); err == nil && b.t.Failed() {
			b.t.Logf("its output: %s", text)
		}
	})
	return cmd.Process.Pid
}
