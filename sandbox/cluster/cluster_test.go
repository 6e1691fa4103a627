package cluster_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

const prometheusConfig = `
global: {scrape_interval: 1s}
scrape_configs:
- job_name: self
  static_configs: [{targets: []}]
  file_sd_configs: [{files: ["targets/*.json"]}]
`

// shared is for the tests that end nothing.
var shared = testenv.NewShared(func(ctx context.Context) (*testenv.Env, error) {
	return testenv.Start(ctx, testenv.Options{Prometheus: prometheusConfig})
})

func TestMain(m *testing.M) { shared.Main(m) }

func start(t *testing.T) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	testall.Only(t, "what sandbox/guardrails, sandbox/chart and sandbox/e2e stand on, by itself")
	c := shared.Get(t).Cluster
	return c, c.Client()
}

// TestReadyAfter: a pod runs for as long as its annotation says before it is ready. What else nodes
// and pods of KWOK do here, sandbox/guardrails sees: pods get what a node offers, a layout that
// changes stays, and a node of others or one that is down is left alone.
func TestReadyAfter(t *testing.T) {
	_, k := start(t)
	e, ctx := shared.Get(t), t.Context()
	require.NoError(t, e.Namespace(ctx, "models", nil))
	require.NoError(t, e.Create(ctx, `
{apiVersion: v1, kind: Node, metadata: {name: ready-after, annotations: {kwok.x-k8s.io/node: fake}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: models, name: server, annotations: {sandbox.gpuscale.io/ready-after: 2s}}, spec: {containers: [{name: model, image: example/model}]}}
`))
	t.Cleanup(func() { _ = k.CoreV1().Nodes().Delete(context.Background(), "ready-after", metav1.DeleteOptions{}) })
	var p *corev1.Pod
	await.True(t, testenv.Patience, "the server is ready", func() (ready bool) {
		var err error
		p, err = k.CoreV1().Pods("models").Get(ctx, "server", metav1.GetOptions{})
		return err == nil && kube.PodReady(p)
	})
	for _, c := range p.Status.Conditions {
		if late := c.LastTransitionTime.Sub(p.Status.StartTime.Time); c.Type == corev1.PodReady && late < 2*time.Second {
			t.Errorf("it was ready %s after it ran", late)
		}
	}
}

// TestPrometheusOnPurpose: a wrong configuration is refused, and a program that is
// killed on purpose is no failure.
func TestPrometheusOnPurpose(t *testing.T) {
	c, _ := start(t)
	ctx := t.Context()
	if err := c.ReloadPrometheus(ctx, []byte("nonsense: true\n")); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("reload of a wrong configuration: %v", err)
	}
	require.NoError(t, errors.Join(c.ReloadPrometheus(ctx, []byte(prometheusConfig)), c.KillProgram(cluster.Prometheus), c.StartProgram(ctx, cluster.Prometheus)))
	if err := c.Err(); err != nil {
		t.Errorf("a fault on purpose was reported: %v", err)
	}
}

// TestKilledBesideAnother: two clusters do not meet. One's etcd is killed, which is
// reported; Stop leaves nothing of it, and the other goes on.
func TestKilledBesideAnother(t *testing.T) {
	other, k := start(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Binaries: shared.Get(t).Binaries, Parent: t.TempDir(), Prometheus: []byte(prometheusConfig)})
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	_, err = c.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "only-in-one"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	if _, err := k.CoreV1().Nodes().Get(t.Context(), "only-in-one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a node of one in the other: %v", err)
	}
	running := c.Processes().Running()
	if len(running) != 6 {
		t.Errorf("%d programs run, want 6", len(running))
	}
	require.NoError(t, syscall.Kill(c.Processes().Find(cluster.Etcd).PID(), syscall.SIGKILL))
	select {
	case <-c.Failed():
	case <-time.After(testenv.Patience):
		t.Fatal("not reported")
	}
	err = c.Err()
	t.Log(err)
	var exit *proc.Exit
	if !errors.As(err, &exit) || exit.Name != cluster.Etcd {
		t.Fatalf("want etcd's end, got %v", err)
	}
	for _, want := range []string{"etcd was killed from outside (SIGKILL) after ", "out of memory", "etcd.log"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("message lacks %q", want)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n > 16 {
		t.Errorf("message has %d lines", n)
	}
	c.Stop()
	for _, p := range running {
		if err := syscall.Kill(-p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s is still there: %v", p.Spec.Name, err)
		}
	}
	if _, err := os.Stat(c.Dir()); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if _, err := k.Discovery().ServerVersion(); err != nil || other.Err() != nil {
		t.Errorf("the other does not answer any more: %v, %v", err, other.Err())
	}
}

// TestCancelledStart leaves nothing behind, though etcd ran already.
func TestCancelledStart(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: the control plane may have to be compiled")
	}
	binaries, err := build.ControlPlane(t.Context(), build.Options{})
	require.NoError(t, err)
	parent := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		_ = await.Until(t.Context(), func(context.Context) error {
			if logs, _ := filepath.Glob(filepath.Join(parent, "*", "logs", cluster.Etcd+".log")); len(logs) == 0 {
				return errors.New("etcd has no log yet")
			}
			return nil
		})
	}()
	if _, err := cluster.Start(ctx, cluster.Options{Binaries: binaries, Parent: parent}); !errors.Is(err, context.Canceled) {
		t.Fatalf("want the cancellation, got %v", err)
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
