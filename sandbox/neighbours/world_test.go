package neighbours

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

// world is a control plane with the neighbours' CRDs, and the autoscaler's parts
// put together as the program does, without caches.
type world struct {
	t      *testing.T
	client client.Client
	loop   *loop.Loop
	seen   *observe.Observer
	actor  *act.Actor
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	binaries, err := build.All(t.Context(), build.Options{Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{Binaries: binaries, Parent: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	ctrllog.SetLogger(logr.Discard())
	w := &world{t: t}
	if w.client, err = client.New(c.RESTConfig(), client.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	w.install()
	w.assemble()
	return w
}

// install puts in all CRDs and waits until they are served.
func (w *world) install() {
	w.t.Helper()
	ctx := w.t.Context()
	ours, err := filepath.Glob("../../deploy/crds/*gpunodepools.yaml")
	if err != nil || len(ours) == 0 {
		w.t.Fatal("no CRDs of ours: ", err)
	}
	for _, file := range append(ours, "testdata/herd.yaml") {
		if err := Apply(ctx, w.client, file); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, s := range []Source{ClusterAPI(), Karpenter()} {
		if err := s.Install(ctx, w.client); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, gvk := range []schema.GroupVersionKind{
		v1alpha1.GroupVersion.WithKind("GPUNodePool"), capi.WithKind("MachineDeployment"), capi.WithKind("Machine"),
		karpenter.WithKind("NodePool"), karpenter.WithKind("NodeClaim"), herd,
	} {
		w.eventually("serving "+gvk.Kind, func() error {
			_, err := list(ctx, w.client, gvk, nil)
			return err
		})
	}
	if err := w.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}); err != nil {
		w.t.Fatal(err)
	}
}

var herd = schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Herd"}

func (w *world) assemble() {
	m := partition.NewManager(w.client, w.client, partition.DefaultConfigMap)
	providers := pools.Providers{
		KWOK: pools.NewKWOK(w.client, w.client, m), Scale: pools.NewScale(w.client, w.client), History: pools.NewHistory(time.Now),
	}
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	policy := plan.DefaultPolicy()
	w.seen = observe.New(observe.Options{
		Cluster: w.client, Readings: func() *observe.Readings { return nil }, Pools: providers, ConfigMap: partition.DefaultConfigMap, Log: log,
	})
	w.actor = act.New(act.Options{Client: w.client, Live: w.client, Pools: providers, Partition: m, Policy: policy, Log: log})
	w.loop = loop.New(loop.Options{
		Observer: w.seen, Actor: w.actor, Store: loop.NewStatusStore(w.client, w.client), Policy: policy, Log: log,
		Publisher: loop.NewAnnouncer(w.client, record.NewFakeRecorder(1000), log), Metrics: loop.NewMetrics(prometheus.NewRegistry()),
	})
}

// play runs a double until the test ends.
func (w *world) play(double func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- double(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error("a double: ", err)
		}
	})
}

// rounds turns the loop until ok says nil.
func (w *world) rounds(what string, ok func() error) {
	w.t.Helper()
	w.eventually(what, func() error {
		if err := w.loop.Once(w.t.Context()); err != nil {
			return err
		}
		return ok()
	})
}

const patience = 60 * time.Second

func (w *world) eventually(what string, ok func() error) {
	w.t.Helper()
	await.For(w.t, patience, what, ok)
}

// manifests are the YAML blocks of docs/pools.md, by the name of their pool.
func (w *world) manifests() map[string][]*unstructured.Unstructured {
	w.t.Helper()
	text, err := os.ReadFile("../../docs/pools.md")
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string][]*unstructured.Unstructured{}
	for i, part := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		objects, err := Parse([]byte(block))
		if err != nil || len(objects) == 0 {
			w.t.Fatalf("block %d of docs/pools.md: %v", i+1, err)
		}
		out[objects[len(objects)-1].GetName()] = objects
	}
	return out
}

func (w *world) apply(objects ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, o := range objects {
		if err := w.client.Create(w.t.Context(), o.DeepCopy()); err != nil {
			w.t.Fatalf("creating %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
}

// nodesOf are the UIDs of a pool's ready nodes, by name.
func (w *world) nodesOf(pool string) map[string]corev1.Node {
	w.t.Helper()
	var nodes corev1.NodeList
	if err := w.client.List(w.t.Context(), &nodes, client.MatchingLabels{v1alpha1.NodePoolLabel: pool}); err != nil {
		w.t.Fatal(err)
	}
	out := map[string]corev1.Node{}
	for _, n := range nodes.Items {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			out[n.Name] = n
		}
	}
	return out
}

func (w *world) count(pool string, want int) func() error {
	return func() error {
		if got := len(w.nodesOf(pool)); got != want {
			return fmt.Errorf("pool %s has %d ready nodes, want %d", pool, got, want)
		}
		return nil
	}
}

// pod asks for a whole node of the pool.
func (w *world) pod(name, pool string, cards string) *corev1.Pod {
	w.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name},
		Spec: corev1.PodSpec{NodeSelector: map[string]string{v1alpha1.NodePoolLabel: pool}, Containers: []corev1.Container{{
			Name: "train", Image: "example/train",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(cards)}},
		}}},
	}
	if err := w.client.Create(w.t.Context(), p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// condition reads a pool's condition as "Status Reason: message", and what stands
// in its status; empty where there is none.
func (w *world) condition(pool, kind string) string {
	w.t.Helper()
	var p v1alpha1.GPUNodePool
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Name: pool}, &p); err != nil {
		w.t.Fatal(err)
	}
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// says waits until a pool's condition holds all of the words.
func (w *world) says(pool, kind string, words ...string) {
	w.t.Helper()
	w.rounds(fmt.Sprintf("%s of %s says %q", kind, pool, words), func() error {
		text := w.condition(pool, kind)
		for _, word := range words {
			if !strings.Contains(text, word) {
				return fmt.Errorf("%q", text)
			}
		}
		return nil
	})
}
