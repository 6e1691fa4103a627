package loop_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
)

const (
	boot     = 6 * time.Minute // of a machine
	mostPods = 6
	// patience is how long a pod may be pending, with stock, and a node idle: a request that was not met is
	// overdue after 18 minutes, and a backoff lasts 30 at most.
	patience = 3 * time.Hour
)

// tick is the time between reconciles, length the simulated part of the week: make test-all simulates all of it.
var tick, length = 30 * time.Minute, 3 * 24 * time.Hour

// week is a cluster with one pool, whose provider behaves as a cloud does in bad weeks: it is out of stock for hours,
// refuses requests, or accepts them and delivers nothing. The autoscaler is killed in between. A pod takes a node.
type week struct {
	t      *testing.T
	c      client.Client
	now    time.Time
	random *rand.Rand
	loop   *loop.Loop
	cloud  cloud
	made   int
	// idle and pending are the times since which a node has no pod, and a pod no node.
	idle, pending map[string]time.Time
}

// cloud is the provider of the pool.
type cloud struct {
	w           *week
	target      int
	ordered     []time.Time // when undelivered machines are up
	stock       bool
	refuses     bool      // without stock
	since       time.Time // of the stock
	calls, fail int
}

func newWeek(t *testing.T) *week {
	seed := testall.Seed(t, 1)
	if testall.Enabled() {
		tick, length = 10*time.Minute, 7*24*time.Hour
	}
	w := &week{t: t, now: time.Date(2026, 11, 16, 0, 0, 0, 0, time.UTC), random: rand.New(rand.NewPCG(uint64(seed), 1)),
		idle: map[string]time.Time{}, pending: map[string]time.Time{}}
	w.cloud = cloud{w: w, stock: true, since: w.now}
	pool := &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "pool"}, Spec: v1alpha1.GPUNodePoolSpec{
		Max: 8, Provider: v1alpha1.Provider{ExternalGRPC: &v1alpha1.ExternalGRPCProvider{Name: "cloud", NodeGroup: "g"}},
		Template:     v1alpha1.NodeTemplate{Product: "NVIDIA-H100-80GB-HBM3", GPUs: 8, CPU: resource.MustParse("96"), Memory: resource.MustParse("1Ti")},
		PricePerHour: ptr.To(resource.MustParse("40")), ReadyAfter: &metav1.Duration{Duration: boot},
	}}
	w.c = kubefake.New(scheme.New()).WithObjects(pool).WithStatusSubresource(pool).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	w.restart()
	return w
}

// restart starts a new process, whose only state is in the API server.
func (w *week) restart() {
	now := func() time.Time { return w.now }
	providers := pools.Providers{GRPC: &w.cloud, History: pools.NewHistory(now)}
	w.loop = loop.New(loop.Options{
		Observer: observe.New(observe.Options{Cluster: w.c, Readings: func() *observe.Readings { return nil }, Pools: providers, MaxAge: time.Hour}),
		Actor: act.New(act.Options{Client: w.c, Live: w.c, Pools: providers, Partition: partition.NewManager(w.c, w.c, partition.DefaultConfigMap),
			Policy: plan.DefaultPolicy()}),
		Store: loop.NewStatusStore(w.c, w.c, nil), Publisher: loop.NewClusterPublisher(w.c, &record.FakeRecorder{}, slog.New(slog.DiscardHandler)), Policy: plan.DefaultPolicy(),
		Now: now,
	})
}

// List implements pools.Provider.
func (c *cloud) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return pools.Listing{Target: c.target}, nil
}

// SetSize implements pools.Provider.
func (c *cloud) SetSize(_ context.Context, _ *v1alpha1.GPUNodePool, from, size int) error {
	c.calls++
	if c.target < from {
		c.w.t.Errorf("%s: %d nodes are requested beside %d, there are %d", c.w.now, size, from, c.target)
	}
	if !c.stock && c.refuses {
		c.fail++
		return errors.New("insufficient capacity")
	}
	if size > 8 {
		c.w.t.Errorf("%s: %d nodes are requested, max is 8", c.w.now, size)
	}
	pending := 0
	for _, p := range c.w.pods() {
		if p.Spec.NodeName == "" {
			pending++
		}
	}
	if nodes := len(c.w.nodes()); size > nodes+pending {
		c.w.t.Errorf("%s: %d nodes are requested for %d pending pods beside %d nodes", c.w.now, size, pending, nodes)
	}
	for ; c.target < size; c.target++ {
		c.ordered = append(c.ordered, c.w.now.Add(boot))
	}
	return nil
}

// Delete implements pools.Provider.
func (c *cloud) Delete(ctx context.Context, _ *v1alpha1.GPUNodePool, node *corev1.Node, _ bool) error {
	if err := c.w.c.Delete(ctx, node); err != nil {
		return err
	}
	c.target--
	return nil
}

// Withdraw implements pools.Provider.
func (c *cloud) Withdraw(context.Context, *v1alpha1.GPUNodePool, int) error {
	c.target -= len(c.ordered)
	c.ordered = nil
	return nil
}

// deliver makes the nodes of machines that are up.
func (c *cloud) deliver() {
	for c.stock && len(c.ordered) > 0 && !c.ordered[0].After(c.w.now) {
		c.ordered = c.ordered[1:]
		c.w.made++
		capacity := corev1.ResourceList{"cpu": resource.MustParse("96"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8")}
		name := fmt.Sprintf("n-%d", c.w.made)
		c.w.must(c.w.c.Create(context.Background(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(c.w.now), Labels: map[string]string{
				v1alpha1.NodePoolLabel: "p", partition.PresentLabel: "true", partition.ProductLabel: "NVIDIA-H100-80GB-HBM3", partition.CountLabel: "8"}},
			Spec: corev1.NodeSpec{ProviderID: "cloud://" + name},
			Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.w.now)}}},
		}))
	}
}

func (w *week) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%s: %v", w.now, err)
	}
}

func (w *week) nodes() []corev1.Node {
	var list corev1.NodeList
	w.must(w.c.List(context.Background(), &list))
	return list.Items
}

func (w *week) pods() []corev1.Pod {
	var list corev1.PodList
	w.must(w.c.List(context.Background(), &list))
	return list.Items
}

// add a pod of eight GPUs.
func (w *week) add() {
	w.made++
	gpus := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("8")}
	name := fmt.Sprintf("pod-%d", w.made)
	w.must(w.c.Create(context.Background(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(w.now),
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: name, UID: types.UID("job-" + name), Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: gpus, Limits: gpus}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(w.now)}}},
	}))
}

// schedule binds pods to schedulable nodes without one.
func (w *week) schedule() {
	taken := map[string]bool{}
	pods := w.pods()
	for i := range pods {
		taken[pods[i].Spec.NodeName] = true
	}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			continue
		}
		for _, n := range w.nodes() {
			if !taken[n.Name] && !n.Spec.Unschedulable {
				taken[n.Name] = true
				pods[i].Spec.NodeName, pods[i].Status = n.Name, corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.NewTime(w.now))}
				w.must(w.c.Update(context.Background(), &pods[i]))
				break
			}
		}
	}
}

// step is one tick of the cloud, the scheduler and the autoscaler, and checks what must hold at any time.
func (w *week) step() {
	w.now = w.now.Add(tick)
	w.cloud.deliver()
	w.schedule()
	w.must(w.loop.Once(context.Background()))
	if slices.ContainsFunc(w.nodes(), func(n corev1.Node) bool { return n.Spec.Unschedulable }) {
		w.now = w.now.Add(10 * time.Second) // the cordon has settled
		w.must(w.loop.Once(context.Background()))
	}
	busy, have := map[string]bool{}, map[string]bool{}
	for _, p := range w.pods() {
		busy[p.Spec.NodeName], have[p.Name] = true, true
		if p.Spec.NodeName != "" || w.pending[p.Name].IsZero() {
			w.pending[p.Name] = w.now
		}
		if w.cloud.stock && w.now.Sub(w.pending[p.Name]) > patience && w.now.Sub(w.cloud.since) > patience {
			w.t.Errorf("%s: %s is pending for %s, with stock for %s", w.now, p.Name, w.now.Sub(w.pending[p.Name]), w.now.Sub(w.cloud.since))
		}
	}
	for _, n := range w.nodes() {
		have[n.Name] = true
		if busy[n.Name] || w.idle[n.Name].IsZero() {
			w.idle[n.Name] = w.now
		}
		if idle := w.now.Sub(w.idle[n.Name]); idle > patience {
			w.t.Errorf("%s: %s is idle for %s", w.now, n.Name, idle)
		}
	}
	for _, since := range []map[string]time.Time{w.idle, w.pending} {
		for name := range since {
			if !have[name] {
				delete(since, name)
			}
		}
	}
}

// chance is true once in about d.
func (w *week) chance(d time.Duration) bool { return w.random.Int64N(int64(d/tick)) == 0 }

// TestWeekOfStockOuts: through a week in which the cloud is out of stock for hours again and again and the
// autoscaler is killed several times a day, there is never a request beyond the demand, no node stays idle
// and no pod is forgotten; in the end the pool has the nodes of its pods.
func TestWeekOfStockOuts(t *testing.T) {
	w := newWeek(t)
	outs, restarts := 0, 0
	for end := w.now.Add(length); w.now.Before(end) && !t.Failed(); {
		if w.chance(5*time.Hour) || !w.cloud.stock && w.chance(3*time.Hour) {
			w.cloud.stock, w.cloud.refuses, w.cloud.since = !w.cloud.stock, w.random.IntN(2) == 0, w.now
			outs++
		}
		if pods := w.pods(); len(pods) < mostPods && w.chance(time.Hour) {
			w.add()
		} else if len(pods) > 0 && w.chance(time.Hour) {
			w.must(w.c.Delete(t.Context(), &pods[w.random.IntN(len(pods))]))
		}
		if w.chance(4 * time.Hour) {
			w.restart()
			restarts++
		}
		w.step()
	}
	t.Logf("%d changes of the stock, %d restarts, %d requests of which %d were refused", outs, restarts, w.cloud.calls, w.cloud.fail)
	if outs < 10 || restarts < 10 || w.cloud.fail == 0 {
		t.Error("the week was too quiet")
	}
	w.cloud.stock, w.cloud.since = true, w.now
	settle := func(pods int) {
		t.Helper()
		for len(w.pods()) < pods {
			w.add()
		}
		for _, p := range w.pods()[pods:] {
			w.must(w.c.Delete(t.Context(), &p))
		}
		for end := w.now.Add(4 * time.Hour); w.now.Before(end) && !t.Failed(); {
			w.step()
		}
		waiting := slices.ContainsFunc(w.pods(), func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
		if nodes := w.nodes(); len(nodes) != pods || w.cloud.target != pods || waiting {
			t.Errorf("%d nodes of %d for %d pods, pending: %v", len(nodes), w.cloud.target, pods, waiting)
		}
		for _, n := range w.nodes() {
			if n.Spec.Unschedulable || len(n.Annotations) > 0 || len(n.Spec.Taints) > 0 {
				t.Errorf("left on node %s: %v, annotations %v, taints %v", n.Name, n.Spec.Unschedulable, n.Annotations, n.Spec.Taints)
			}
		}
		var pool v1alpha1.GPUNodePool
		w.must(w.c.Get(t.Context(), client.ObjectKey{Name: "p"}, &pool))
		if s := pool.Status; s.Backoff != nil || s.Operations != 0 || s.Upcoming != 0 || int(s.Size) != pods {
			t.Errorf("status %+v", s)
		}
	}
	settle(3)
	settle(0)
}
