package machines

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/device"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

const fleetStory = `
pools: [{name: big, product: NVIDIA-H100-80GB-HBM3, gpus: 2, max: 4, boot: 15s, layout: [{3g.40gb: 2}]}]
nodes: [{name: big-a, pool: big, layout: [{3g.40gb: 2}, {1g.10gb: 7}]}]
`

type env struct {
	t       *testing.T
	client  *fake.Clientset
	fleet   *Fleet
	now     time.Time
	running map[string]bool // exporters
}

func newEnv(t *testing.T) *env {
	s, err := story.Parse("s.yaml", fleetStory)
	require.NoError(t, err)
	b := &env{t: t, client: fake.NewClientset(), now: time.Unix(1000, 0), running: map[string]bool{}}
	b.fleet = New(Options{
		Story: s, Client: b.client, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Clock: func() time.Time { return b.now },
		Loads: func([]node.Holding, time.Time) map[string]device.Load { return nil },
		Start: func(_ context.Context, e Exporter) (string, func(), error) {
			b.running[e.Node] = true
			return "127.0.0.1:1", func() { delete(b.running, e.Node) }, nil
		},
	})
	return b
}

func (b *env) nodes() (out []*corev1.Node) {
	list, err := b.client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	require.NoError(b.t, err)
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (b *env) node(name string) (*corev1.Node, bool) {
	n, err := b.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	return n, err == nil
}

func (b *env) create(name, pool string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + b.now.String()), Labels: map[string]string{poolLabel: pool}}}
	_, err := b.client.CoreV1().Nodes().Create(context.Background(), n, metav1.CreateOptions{})
	require.NoError(b.t, err)
}

func (b *env) delete(name string) {
	require.NoError(b.t, b.client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}))
}

func (b *env) pass(d time.Duration) {
	b.now = b.now.Add(d)
	require.NoError(b.t, b.fleet.Step(context.Background(), b.nodes(), func(string) []*corev1.Pod { return nil }, nil))
}

// driver is what the driver's fake of a machine has.
func (b *env) driver(node string, gpus int) fakenvml.State {
	b.t.Helper()
	state, err := fakenvml.State{GPUs: make([]fakenvml.GPU, gpus)}.Read(filepath.Join(b.fleet.opts.Dir, node, "dcgm.state.nvml"))
	require.NoError(b.t, err)
	return state
}

func (b *env) allocatable(name, resource string) int64 {
	n, ok := b.node(name)
	if !ok {
		b.t.Fatalf("no node %s", name)
	}
	q := n.Status.Allocatable[corev1.ResourceName(resource)]
	return q.Value()
}

func TestAGivenNodeIsUpAtOnce(t *testing.T) {
	b := newEnv(t)
	b.create("big-a", "big")
	b.create("other", "not-in-the-story")
	b.pass(0)
	n, _ := b.node("big-a")
	if n.Annotations["kwok.x-k8s.io/node"] != "fake" || !b.running["big-a"] || b.running["other"] {
		t.Errorf("annotations %v, exporters %v", n.Annotations, b.running)
	}
	b.pass(2 * time.Second)
	if b.allocatable("big-a", "nvidia.com/mig-3g.40gb") != 2 || b.allocatable("big-a", "nvidia.com/mig-1g.10gb") != 7 {
		t.Errorf("the node's own layout is not advertised")
	}
	if state := b.driver("big-a", 2); len(state.GPUs[1].Instances) != 7 {
		t.Errorf("the driver's fake sees %+v", state.GPUs)
	}
	if got := b.fleet.Targets(); len(got) != 1 || got["big-a"] == "" {
		t.Errorf("targets %v", got)
	}
}

func TestANewNodeBootsAfterItsTime(t *testing.T) {
	b := newEnv(t)
	b.create("big-1", "big")
	b.pass(0)
	b.pass(14 * time.Second)
	if len(b.running) != 0 {
		t.Fatalf("up too early: %v", b.running)
	}
	b.pass(2 * time.Second)
	if len(b.running) != 1 {
		t.Fatalf("after the boot delay: %v", b.running)
	}
}

func TestADeletedNodeLosesItsMachine(t *testing.T) {
	b := newEnv(t)
	b.create("big-a", "big")
	b.pass(0)
	b.delete("big-a")
	b.pass(time.Second)
	if len(b.running) != 0 || len(b.fleet.Targets()) != 0 {
		t.Errorf("exporters %v", b.running)
	}
	if _, err := os.Stat(filepath.Join(b.fleet.opts.Dir, "big-a")); !os.IsNotExist(err) {
		t.Errorf("its folder: %v", err)
	}
	b.create("big-a", "big") // the same name again is another machine
	b.pass(time.Second)
	if !b.running["big-a"] {
		t.Error("a node of the same name does not come up")
	}
	b.fleet.Stop()
	if len(b.running) != 0 {
		t.Error("exporters run after Stop")
	}
}

// mig-manager pauses the exporter by a label; it ends, and comes back at the
// same address.
func TestAPausedExporterEndsAndComesBack(t *testing.T) {
	const label = "nvidia.com/gpu.deploy.dcgm-exporter"
	b := newEnv(t)
	b.create("big-a", "big")
	b.pass(0)
	set := func(value string) {
		n, _ := b.node("big-a")
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[label] = value
		_, err := b.client.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	for _, step := range []struct {
		value string
		runs  bool
	}{{"true", true}, {"paused-for-mig-change", false}, {"paused-for-mig-change", false}, {"true", true}} {
		set(step.value)
		b.pass(time.Second)
		if b.running["big-a"] != step.runs {
			t.Errorf("%s: runs %v", step.value, b.running["big-a"])
		}
		if got := b.fleet.Targets(); len(got) != 1 {
			t.Errorf("%s: targets %v: a scrape that fails ends its series at once, a new target waits for discovery", step.value, got)
		}
	}
	b.fleet.Stop()
	if len(b.running) != 0 {
		t.Error("the exporter outlives the fleet")
	}
}
