package guardrails

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

const (
	product = "NVIDIA-H100-80GB-HBM3"
	// perNode is the number of GPUs of a node.
	perNode = 8
)

// world is the cluster of one test, with its autoscaler.
type world struct {
	*env
	t  *testing.T
	ns string // namespace of the test's pods; it is not deleted
	// ahead is how far the autoscaler's clock is ahead of the machine's clock. Each world begins at the machine's
	// time, which the API server uses too.
	ahead     atomic.Int64
	exporters *exporters
	seen      *observe.Observer
	actor     *act.Actor
	loop      *loop.Loop
	fakes     []schema.GroupVersionKind // objects of these kinds are deleted with the test
}

// setup has a test's options for its autoscaler.
type setup struct {
	policy func(*plan.Policy)
	// provider wraps the default provider.
	provider func(pools.Provider) pools.Provider
	// foreign returns other projects' objects with demand.
	foreign func() (foreign.Objects, error)
}

func newWorld(t *testing.T, s setup) *world {
	t.Helper()
	e := shared.Get(t)
	w := &world{env: e, t: t, ns: fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(t.Name()), "/", "-"), e.worlds.Add(1))}
	w.exporters = &exporters{w: w, sick: map[string]bool{}}
	w.must(e.Namespace(t.Context(), w.namespace(), nil))
	t.Cleanup(w.clean)
	w.start(s)
	return w
}

func (w *world) namespace() string { return w.ns }

// start builds the autoscaler's parts as the program does, but without caches. A second call is a restart
// with another configuration.
func (w *world) start(s setup) {
	m := partition.NewManager(w.ours, w.ours, partition.DefaultConfigMap)
	var provider pools.Provider = pools.Providers{
		GRPC: nodegroups.New(w.ours, w.ours), Scale: pools.NewScale(w.ours, w.ours), History: pools.NewHistory(w.now),
	}
	if s.provider != nil {
		provider = s.provider(provider)
	}
	policy := plan.DefaultPolicy()
	if s.policy != nil {
		s.policy(&policy)
	}
	w.must(policy.Check())
	log := slog.New(slog.NewTextHandler(w.t.Output(), nil))
	w.seen = observe.New(observe.Options{
		Cluster: w.ours, Readings: w.exporters.read, MaxAge: maxAge, Pools: learner{provider}, ConfigMap: partition.DefaultConfigMap, Foreign: s.foreign, Log: log,
	})
	w.actor = act.New(act.Options{Client: w.ours, Live: w.ours, Pools: provider, Partition: m, Policy: policy, Nominate: true, Log: log})
	w.loop = loop.New(loop.Options{
		Observer: w.seen, Actor: w.actor, Store: loop.NewStatusStore(w.ours, w.ours, nil), Policy: policy, Log: log,
		Now: w.now, Publisher: loop.NewClusterPublisher(w.ours, record.NewFakeRecorder(10000), log),
	})
}

// learner is a provider for the observer. What the provider has learnt stays with the program's own.
type learner struct{ pools.Provider }

func (l learner) Learn(pool *v1alpha1.GPUNodePool, target int, nodes []*corev1.Node) pools.Learned {
	if p, ok := l.Provider.(observe.PoolReader); ok {
		return p.Learn(pool, target, nodes)
	}
	return pools.Learned{}
}

// objects returns the objects of a file in testdata/objects, with words replaced.
func (w *world) objects(file string, words ...string) []*unstructured.Unstructured {
	w.t.Helper()
	objects, err := neighbours.Parse([]byte(testenv.Text(w.t, filepath.Join("testdata/objects", file), words...)))
	w.must(err)
	return objects
}

// apply creates objects; existing ones stay unchanged.
func (w *world) apply(objects ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, o := range objects {
		w.must(client.IgnoreAlreadyExists(w.CreateObject(w.t.Context(), o)))
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// pass moves the clock forward.
func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// reconcile reconciles once, after all nodes have booted.
func (w *world) reconcile() {
	w.t.Helper()
	w.await("nodes boot", w.booted)
	w.must(w.once())
}

// once scrapes the exporters and reconciles once.
func (w *world) once() error {
	w.exporters.scrape()
	return w.loop.Once(w.t.Context())
}

// booted returns an error for a node that is not ready. If a test moves the clock by hours, a new node is
// hours old, and one that is not ready counts as failed. So no reconcile may see such a node, however slow
// the machine is.
func (w *world) booted() error {
	var nodes corev1.NodeList
	if err := w.Admin.List(w.t.Context(), &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; !kube.NodeReady(n) {
			return fmt.Errorf("node %s is not ready", n.Name)
		}
	}
	return nil
}

// atRest is the time between reconciles. It is shorter than the maximum age of readings; after a longer time
// a GPU might have been busy meanwhile.
const (
	maxAge = 75 * time.Second
	atRest = 70 * time.Second
)

// elapse moves the clock forward in steps, with a reconcile after each.
func (w *world) elapse(d time.Duration) {
	w.t.Helper()
	for ; d > 0; d -= atRest {
		w.pass(min(d, atRest))
		w.reconcile()
	}
}

func (w *world) reconciles(n int) {
	w.t.Helper()
	for range n {
		w.reconcile()
	}
}

// await waits for ok without reconciling.
func (w *world) await(what string, ok func() error) {
	w.t.Helper()
	await.For(w.t, testenv.Patience, what, ok)
}

// until reconciles until ok returns nil.
func (w *world) until(what string, ok func() error) {
	w.t.Helper()
	await.For(w.t, testenv.Patience, what, func() error {
		if err := w.booted(); err != nil {
			return err
		}
		if err := w.once(); err != nil {
			return err
		}
		return ok()
	})
}

// pool creates a GPUNodePool with KWOK nodes, after applying changes.
func (w *world) pool(name string, least, most int32, change ...func(*v1alpha1.GPUNodePool)) *v1alpha1.GPUNodePool {
	w.t.Helper()
	p := &v1alpha1.GPUNodePool{}
	w.must(yaml.Unmarshal(fmt.Appendf(nil, `
metadata: {name: %[1]s}
spec:
  min: %[2]d
  max: %[3]d
  provider: {externalGRPC: {name: %[4]s, nodeGroup: %[1]s}}
  template: {product: %[5]s, gpus: %[6]d, cpu: "64", memory: 512Gi}
  pricePerHour: "40"
  scaleDown: {idleAfter: 1m}
`, name, least, most, nodegroups.Name, product, perNode), p))
	for _, c := range change {
		c(p)
	}
	w.must(w.Admin.Create(w.t.Context(), p))
	return p
}

// edit changes a pool as its owner would.
func (w *world) edit(name string, change func(*v1alpha1.GPUNodePoolSpec)) {
	w.t.Helper()
	w.await("editing pool "+name, func() error {
		p := w.get(name)
		change(&p.Spec)
		return w.Admin.Update(w.t.Context(), p)
	})
}

func (w *world) get(name string) *v1alpha1.GPUNodePool {
	w.t.Helper()
	var p v1alpha1.GPUNodePool
	w.must(w.Admin.Get(w.t.Context(), client.ObjectKey{Name: name}, &p))
	return &p
}

// nodes returns the nodes of a pool, sorted by name.
func (w *world) nodes(pool string) []corev1.Node {
	w.t.Helper()
	var list corev1.NodeList
	w.must(w.Admin.List(w.t.Context(), &list, client.MatchingLabels{v1alpha1.NodePoolLabel: pool}))
	return list.Items
}

// has returns a function for await and until: the pool must have this number of nodes, all ready.
func (w *world) has(pool string, want int) func() error {
	return func() error {
		nodes := w.nodes(pool)
		ready := 0
		for i := range nodes {
			if kube.NodeReady(&nodes[i]) {
				ready++
			}
		}
		if len(nodes) != want || ready != want {
			return fmt.Errorf("pool %s has %d nodes, %d ready, want %d; %s", pool, len(nodes), ready, want, w.statusOf(pool))
		}
		return nil
	}
}

// statusOf returns the reason and message in a pool's status.
func (w *world) statusOf(pool string) string {
	s := w.get(pool).Status
	return fmt.Sprintf("%s: %s", s.Reason, s.Message)
}

// condition returns a condition of a pool, "Status Reason: message"; empty if it is not set.
func (w *world) condition(pool, kind string) string {
	c := meta.FindStatusCondition(w.get(pool).Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// work creates a Deployment whose pods request GPUs of one pool.
func (w *world) work(name, pool string, replicas int32, gpus int64, change ...func(*corev1.PodTemplateSpec)) *appsv1.Deployment {
	w.t.Helper()
	d := &appsv1.Deployment{}
	w.must(yaml.Unmarshal(fmt.Appendf(nil, `
metadata: {namespace: %s, name: %[2]s}
spec:
  replicas: %[4]d
  selector: {matchLabels: {app: %[2]s}}
  template:
    metadata: {labels: {app: %[2]s}, annotations: {}}
    spec:
      nodeSelector: {%[6]s: %[3]s}
      containers: [{name: c, image: example/c, resources: {requests: {nvidia.com/gpu: "%[5]d"}, limits: {nvidia.com/gpu: "%[5]d"}}}]
`, w.namespace(), name, pool, replicas, gpus, v1alpha1.NodePoolLabel), d))
	for _, c := range change {
		c(&d.Spec.Template)
	}
	w.must(w.Admin.Create(w.t.Context(), d))
	return d
}

// pods returns the pods of an app, including terminating ones.
func (w *world) pods(app string) []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.Admin.List(w.t.Context(), &list, client.InNamespace(w.namespace()), client.MatchingLabels{"app": app}))
	return list.Items
}

// runs returns a function for await and until: this number of pods of an app must be bound and not
// terminating.
func (w *world) runs(app string, want int) func() error {
	return func() error {
		bound := 0
		for _, p := range w.pods(app) {
			if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				bound++
			}
		}
		if bound != want {
			return fmt.Errorf("%d pods of %s run, want %d", bound, app, want)
		}
		return nil
	}
}

// waits returns a function for await: this number of pods of an app must be unschedulable.
func (w *world) waits(app string, want int) func() error {
	return func() error {
		n := 0
		for _, p := range w.pods(app) {
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d pods of %s are pending, want %d", n, app, want)
		}
		return nil
	}
}

// node returns the current state of a node.
func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	var n corev1.Node
	w.must(w.Admin.Get(w.t.Context(), client.ObjectKey{Name: name}, &n))
	return &n
}

// patchNode changes a node as another client.
func (w *world) patchNode(name string, change func(*corev1.Node)) {
	w.t.Helper()
	n := w.node(name)
	before := n.DeepCopy()
	change(n)
	w.must(w.Admin.Patch(w.t.Context(), n, client.MergeFrom(before)))
}

// untouched returns an error if a node has a mark of ours or is cordoned.
func (w *world) untouched(name string) error {
	n := w.node(name)
	var ours []string
	for key := range n.Annotations {
		if strings.HasPrefix(key, "gpuscale.io/") {
			ours = append(ours, key)
		}
	}
	if n.Spec.Unschedulable || len(ours) > 0 {
		return fmt.Errorf("node %s: cordoned %v, annotations of ours %v", name, n.Spec.Unschedulable, ours)
	}
	return nil
}

// draining returns a function for await and until: the node must be draining.
func (w *world) draining(name string) func() error {
	return func() error {
		n := w.node(name)
		if _, ok, err := v1alpha1.DrainOf(n); !ok || err != nil || !n.Spec.Unschedulable {
			return fmt.Errorf("node %s: drain %v (%w), cordoned %v", name, ok, err, n.Spec.Unschedulable)
		}
		return nil
	}
}

// goesOn returns a function for until: it moves the clock forward until this number of nodes is left.
func (w *world) goesOn(pool string, left int) func() error {
	return func() error {
		if n := len(w.nodes(pool)); n != left {
			w.pass(atRest)
			return fmt.Errorf("%d nodes are left, want %d; %s", n, left, w.statusOf(pool))
		}
		return nil
	}
}

// clean deletes all objects of the test.
func (w *world) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
	defer cancel()
	zero := client.GracePeriodSeconds(0)
	in := client.InNamespace(w.namespace())
	for _, err := range []error{
		w.Admin.DeleteAllOf(ctx, &appsv1.Deployment{}, in, client.PropagationPolicy(metav1.DeletePropagationBackground)),
		w.Admin.DeleteAllOf(ctx, &v1alpha1.GPUNodePool{}), w.Admin.DeleteAllOf(ctx, &v1alpha1.GPUQuota{}),
	} {
		if err != nil {
			w.t.Error("cleaning up: ", err)
		}
	}
	if err := await.Until(ctx, func(ctx context.Context) error {
		var pods corev1.PodList
		var sets appsv1.ReplicaSetList
		if err := errors.Join(w.Admin.List(ctx, &sets, in), w.Admin.List(ctx, &pods, in)); err != nil {
			return await.Final(err)
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if len(p.Finalizers) > 0 {
				before := p.DeepCopy()
				p.Finalizers = nil
				_ = w.Admin.Patch(ctx, p, client.MergeFrom(before))
			}
			_ = w.Admin.Delete(ctx, p, zero)
		}
		if left := len(pods.Items) + len(sets.Items); left > 0 {
			return fmt.Errorf("%d pods and ReplicaSets are left", left)
		}
		return nil
	}); err != nil {
		w.t.Error("cleaning up: ", err)
	}
	if err := w.Admin.DeleteAllOf(ctx, &corev1.Node{}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Error("cleaning up: ", err)
	}
	for _, kind := range w.fakes {
		if err := w.discard(ctx, kind); err != nil {
			w.t.Error("cleaning up: ", err)
		}
	}
}

// discard removes all objects of a kind whose controllers no longer run.
func (w *world) discard(ctx context.Context, kind schema.GroupVersionKind) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := w.Admin.List(ctx, list); err != nil {
		return err
	}
	for i := range list.Items {
		o := &list.Items[i]
		before := o.DeepCopy()
		o.SetFinalizers(nil)
		if err := errors.Join(w.Admin.Patch(ctx, o, client.MergeFrom(before)), w.Delete(ctx, o)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
