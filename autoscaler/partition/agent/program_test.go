package agent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
)

// BenchmarkProgram measures the program's resources for eight GPUs with seven instances, idle and
// during changes of their layout. They are the source of the chart's resources. Fake driver and API
// server use their time elsewhere.
func BenchmarkProgram(b *testing.B) {
	program := filepath.Join(b.TempDir(), "gpuscale-agent")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, "../..").CombinedOutput(); err != nil {
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
	await.For(b, 2*time.Minute, "a first look", func() error { _, err := partition.ParseReport(n.api.get(partition.LayoutAnnotation)); return err })
	for b.Loop() {
		for i := range 10 {
			from, to := ones, "3g.40gb@0 3g.40gb@4"
			if i%2 == 1 {
				from, to = to, from
			}
			r := n.order(from, to, func(r *partition.Record) { r.ID = fmt.Sprint("op-", i) })
			await.For(b, 2*time.Minute, "a layout", func() error {
				if a, err := partition.ParseAnswer(n.api.get(partition.AgentAnnotation)); err != nil || a.ID != r.ID || a.State != partition.AgentDone {
					return fmt.Errorf("%+v: %w", a, err)
				}
				return nil
			})
			n.api.set(partition.RecordAnnotation, "")
			await.For(b, 2*time.Minute, "the end of it", func() error {
				if n.api.get(partition.AgentAnnotation) != "" {
					return errors.New("its answer is still there")
				}
				return nil
			})
		}
		before, looks := processor(b, pid), n.api.looked()
		const idle = 30
		await.True(b, 10*time.Minute, "looks at a node that nothing happens on", func() bool { return n.api.looked()-looks >= idle })
		b.ReportMetric(float64((processor(b, pid)-before).Milliseconds())/float64(n.api.looked()-looks), "cpu-ms/look")
	}
	b.ReportMetric(procStatus(b, pid, "VmRSS"), "MiB-resident")
	b.ReportMetric(procStatus(b, pid, "VmHWM"), "MiB-peak")
	b.ReportMetric(procStatus(b, pid, "RssFile"), "MiB-of-files")
}

// start runs the program against the bench's node until the test ends.
func (b *bench) start(program string) (pid int) {
	b.t.Helper()
	dir := filepath.Dir(b.path)
	config, err := yaml.Marshal(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	kubeconfig := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "clusters": [{"name": "c", "cluster": {"server": %q}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}]}`, b.api.URL)
	for name, text := range map[string]string{"config.yaml": string(config), "kubeconfig": kubeconfig} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	output, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.t.Fatal(err)
	}
	cmd := exec.Command(program, "agent", "--node-name=n", "--pod=", "--listen=127.0.0.1:0", "--config="+filepath.Join(dir, "config.yaml"), "--kubeconfig="+filepath.Join(dir, "kubeconfig"))
	cmd.Stderr = output
	if err := cmd.Start(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(output.Name()); err == nil && b.t.Failed() {
			b.t.Logf("its output: %s", text)
		}
	})
	return cmd.Process.Pid
}

// procStatus reads a line of /proc/PID/status, in MiB.
func procStatus(t testing.TB, pid int, field string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	var kib float64
	_, after, _ := strings.Cut(string(text), field+":")
	if _, err := fmt.Sscan(after, &kib); err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return kib / 1024
}

// processor is the CPU time of a process so far, in steps of 10 ms.
func processor(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var user, system time.Duration
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return (user + system) * 10 * time.Millisecond
}
