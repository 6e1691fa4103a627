package bench

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/procstat"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

var (
	nodes = flag.Int("nodes", 1000, "full nodes of 8 GPUs")
	pods  = flag.Int("pods", 500, "pods of the burst; they request 1, 2 … 8, 1, 2 … GPUs")
	idle  = flag.Duration("idle", time.Minute, "how long the idle program is measured")
	score = flag.String("score", "MostAllocated", "how the scheduler scores nodes by their GPUs; its default is LeastAllocated")
)

// BenchmarkAutoscaler reports the kernel's CPU and memory figures of one run.
func BenchmarkAutoscaler(b *testing.B) {
	l := newLab(b)
	before := procstat.Load()
	for b.Loop() {
		pid := l.subject.PID()
		cpu, from := procstat.CPU(pid), time.Now()
		l.sleep(b, *idle)
		used, m := procstat.CPU(pid)-cpu, procstat.Memory(pid)
		b.ReportMetric(used.Seconds()/time.Since(from).Seconds(), "idle-cores")
		b.ReportMetric(mib(m.Now), "idle-MiB")
		b.ReportMetric(mib(m.File), "MiB-of-program-file")

		procstat.ForgetPeak(pid)
		cpu, from = procstat.CPU(pid), time.Now()
		grown := l.burst(b)
		used, m = procstat.CPU(pid)-cpu, procstat.Memory(pid)
		b.ReportMetric((grown.cpu - cpu).Seconds(), "burst-CPU-s-until-last-node")
		b.ReportMetric(grown.at.Sub(from).Seconds(), "s-until-last-node")
		b.ReportMetric(used.Seconds(), "burst-CPU-s-until-all-run")
		b.ReportMetric(time.Since(from).Seconds(), "s-until-all-run")
		b.ReportMetric(mib(m.Peak), "burst-peak-MiB")
		b.ReportMetric(float64(grown.nodes), "nodes-added")
		b.ReportMetric(float64(bound(*pods)), "nodes-at-least")
	}
	b.Logf("%d nodes, %d pods, %s; load average %s before, %s after", *nodes, *pods, *score, before, procstat.Load())
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// lab has the control plane, the fakes, and the program that is measured.
type lab struct {
	*testenv.Env
	cached  *node.Cached
	subject *proc.Process
	broken  chan error // from the fake of Cluster API's controllers
}

// newLab returns once everything runs and is idle.
func newLab(b *testing.B) *lab {
	b.Helper()
	scheduler := filepath.Join(b.TempDir(), "scheduler.yaml")
	require.NoError(b, os.WriteFile(scheduler, fmt.Appendf(nil, scoring, *score), 0o600))
	env, err := testenv.Start(b.Context(), testenv.Options{CRDs: true, Programs: true, Change: func(o *cluster.Options) {
		o.ExtraArgs[cluster.Scheduler] = []string{"--config=" + scheduler}
	}})
	require.NoError(b, err)
	b.Cleanup(env.Stop)
	l := &lab{Env: env, broken: make(chan error, 1)}
	for _, step := range []struct {
		what string
		do   func(*testing.B) error
	}{
		{"creating pools", l.createPools},
		{fmt.Sprintf("creating %d full nodes", *nodes), l.createNodes},
		{"starting the autoscaler", l.startSubject},
	} {
		b.Log(time.Now().Format(time.TimeOnly), step.what)
		if err := step.do(b); err != nil {
			b.Fatalf("%s: %v", step.what, errors.Join(err, l.Cluster.Err()))
		}
	}
	l.sleep(b, 30*time.Second) // until it is idle
	return l
}

// sleep waits without any other activity; this time is measured.
func (l *lab) sleep(b *testing.B, d time.Duration) {
	b.Helper()
	select {
	case <-b.Context().Done():
		b.Fatal(context.Cause(b.Context()))
	case err := <-l.broken:
		b.Fatal("the fake of Cluster API: ", err)
	case <-time.After(d):
	}
}

// scoring makes the scheduler fill nodes one by one. By default it spreads pods, so pods with many GPUs would
// fit on no node. The path of the kubeconfig is relative to the working directory.
const scoring = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: kube-scheduler.kubeconfig, qps: 500, burst: 1000}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
- schedulerName: default-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: %s, resources: [{name: nvidia.com/gpu, weight: 100}]}}
`

// createPools creates the program's permissions and the pools.
func (l *lab) createPools(b *testing.B) error {
	ctx := b.Context()
	var err error
	if l.cached, err = node.NewCached(ctx, l.Cluster.Client()); err != nil {
		return err
	}
	if err := l.InstallSources(ctx, neighbours.ClusterAPI()); err != nil {
		return err
	}
	for _, name := range []string{system, work, partition.DefaultConfigMap.Namespace} {
		if err := l.Namespace(ctx, name, nil); err != nil {
			return err
		}
	}
	if err := errors.Join(l.Apply(ctx, "deploy/manifests/autoscaler.yaml"), l.Apply(ctx, "sandbox/bench/testdata/pools.yaml")); err != nil {
		return err
	}
	go func() { l.broken <- (&neighbours.Machines{Client: l.Admin, Nodes: offers}).Run(ctx) }()
	return nil
}

// createNodes creates the nodes of pool base, and pods already bound to them that fill them.
func (l *lab) createNodes(b *testing.B) error {
	var full []*corev1.Pod
	for n := range *nodes {
		gpus := []int{8, 4, 1}[n%3]
		for i := range gpusOfNode / gpus {
			full = append(full, podOf(fmt.Sprintf("base-%05d-%d", n, i), fmt.Sprintf("base-%05d", n), gpus))
		}
	}
	err := each(b.Context(), *nodes, func(n int) error {
		_, err := offers.Add(b.Context(), l.Admin, fmt.Sprintf("base-%05d", n), map[string]string{v1alpha1.NodePoolLabel: base})
		return err
	})
	if err != nil {
		return err
	}
	if err := each(b.Context(), len(full), func(n int) error { return l.Admin.Create(b.Context(), full[n]) }); err != nil {
		return err
	}
	return l.until(b, func() error { return l.allRun("base-", len(full)) })
}

// growth is the number of added nodes, when the last one appeared, and the program's CPU time at that moment.
type growth struct {
	nodes int
	at    time.Time
	cpu   time.Duration
}

// burst creates the pods and waits until all of them run.
func (l *lab) burst(b *testing.B) (grown growth) {
	b.Helper()
	err := each(b.Context(), *pods, func(n int) error {
		return l.Admin.Create(b.Context(), podOf(fmt.Sprintf("burst-%05d", n), "", requests(n)))
	})
	b.Log(time.Now().Format(time.TimeOnly), "all pods are created")
	if err == nil {
		err = l.until(b, func() error {
			if added := len(l.cached.Nodes()) - *nodes; added != grown.nodes {
				grown = growth{added, time.Now(), procstat.CPU(l.subject.PID())}
			}
			return l.allRun("burst-", *pods)
		})
	}
	require.NoError(b, err)
	return grown
}

func (l *lab) allRun(prefix string, n int) error {
	run := 0
	for _, p := range l.cached.Pods() {
		if strings.HasPrefix(p.Name, prefix) && p.Status.Phase == corev1.PodRunning {
			run++
		}
	}
	if run < n {
		return fmt.Errorf("%d of %d pods run", run, n)
	}
	return nil
}

// until waits for minutes until done returns nil, since thousands of pods take long.
func (l *lab) until(b *testing.B, done func() error) error {
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
	defer cancel()
	return l.Cluster.Await(ctx, func(context.Context) error {
		select {
		case err := <-l.broken:
			return await.Final(fmt.Errorf("the fake of Cluster API: %w", err))
		default:
			return done()
		}
	})
}

// startSubject starts the program with the default configuration, except for the limits on scale-ups.
func (l *lab) startSubject(b *testing.B) error {
	prom := &promtest.Server{}
	prom.Script((&exporters{nodes: l.cached.Nodes, pods: l.cached.Pods, machines: map[string]*node.Machine{}}).answer)
	server := httptest.NewServer(prom)
	b.Cleanup(server.Close)
	file, listen := filepath.Join(l.Dir, "autoscaler.yaml"), testenv.FreeAddress(b)
	config := "policy: {maxNodesPerScaleUp: 10000, maxNodesPerHour: 100000}\nprometheus: {url: " + server.URL + "}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	kubeconfig, err := l.Cluster.ServiceAccountKubeconfig(b.Context(), system, "gpuscale-autoscaler")
	if err != nil {
		return err
	}
	l.subject, err = l.Cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-autoscaler", Path: filepath.Join(l.Programs, "gpuscale-autoscaler"), Log: l.Cluster.LogFile("gpuscale-autoscaler"),
		Args: []string{"--config=" + file, "--listen=" + listen, "--kubeconfig=" + kubeconfig},
	})
	if err != nil {
		return err
	}
	b.Logf("go tool pprof http://%s/debug/pprof/profile shows where its CPU time goes", listen)
	return l.until(b, func() error {
		resp, err := http.Get("http://" + listen + "/readyz")
		if err != nil {
			return err
		}
		resp.Body.Close()
		var p v1alpha1.GPUNodePool
		if err := l.Admin.Get(b.Context(), client.ObjectKey{Name: base}, &p); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusOK || int(p.Status.Ready) != *nodes {
			return fmt.Errorf("/readyz answers %s; pool %s has %d nodes ready", resp.Status, base, p.Status.Ready)
		}
		return nil
	})
}

// each calls do n times in parallel.
func each(ctx context.Context, n int, do func(i int) error) error {
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, 16, n, func(i int) { errs[i] = do(i) })
	return errors.Join(append(errs, context.Cause(ctx))...)
}
