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

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestKilledBesideAnother: two clusters do not affect each other. The etcd of one is killed: that is
// reported, Stop leaves nothing of this cluster, and the other one keeps running.
func TestKilledBesideAnother(t *testing.T) {
	testall.Only(t, "what sandbox/guardrails, sandbox/chart and sandbox/e2e stand on, by itself")
	binaries := controlPlane(t)
	start := func() *cluster.Cluster {
		c, err := cluster.Start(t.Context(), cluster.Options{Binaries: binaries, Parent: t.TempDir()})
		require.NoError(t, err)
		t.Cleanup(c.Stop)
		return c
	}
	c, other := start(), start()
	_, err := c.Client().CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "only-in-one"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	if _, err := other.Client().CoreV1().Nodes().Get(t.Context(), "only-in-one", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a node of one in the other: %v", err)
	}
	running := c.Processes().Running()
	require.NoError(t, syscall.Kill(c.Processes().Find(cluster.Etcd).PID(), syscall.SIGKILL))
	select {
	case <-c.Failed():
	case <-time.After(testenv.Patience):
		t.Fatal("not reported")
	}
	if !strings.HasPrefix(c.Err().Error(), "etcd was killed from outside (SIGKILL)") {
		t.Errorf("want etcd's end, got %v", c.Err())
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
	if _, err := other.Client().Discovery().ServerVersion(); err != nil || other.Err() != nil {
		t.Errorf("the other does not answer any more: %v, %v", err, other.Err())
	}
}

// TestCancelledStart: a cancelled start leaves nothing behind, though etcd was already running.
func TestCancelledStart(t *testing.T) {
	binaries, parent := controlPlane(t), t.TempDir()
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

func controlPlane(t *testing.T) build.Paths {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the control plane may have to be compiled")
	}
	binaries, err := build.ControlPlane(t.Context(), build.Options{})
	require.NoError(t, err)
	return binaries
}
