package rails

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
)

const (
	product = "NVIDIA-H100-80GB-HBM3"
	// perNode is how many cards a node has.
	perNode = 8
)

// world is the cluster of one test, and the autoscaler in it.
type world struct {
	*bed
	t   *testing.T
	nth int32 // of this control plane
	// ahead is how much later it is than the machine's clock says. Each world begins at
	// the machine's: what is made in it then is as old as it is.
	ahead     atomic.Int64
	exporters *exporters
	seen      *observe.Observer
	actor     *act.Actor
	loop      *loop.Loop
}

// setup is how a test wants its autoscaler.
type setup struct {
	policy func(*plan.Policy)
	dryRun bool
	// provider wraps the one there is.
	provider func(pools.Provider) pools.Provider
}

func newWorld(t *testing.T, s setup) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	b, err := sharedBed()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{bed: b, t: t, nth: b.worlds.Add(1)}
	w.exporters = &exporters{w: w, sick: map[string]bool{}, unused: map[string]time.Duration{}}
	w.must(b.admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace()}}))
	t.Cleanup(w.clean)
	w.start(s)
	return w
}

// namespace of the test's pods. It stays, and is another one when the test is played
// again.
func (w *world) namespace() string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(w.t.Name()), "/", "-"), w.nth)
}

// start puts the autoscaler's parts together as the program does, without caches:
// again for what a restart with another configuration would be.
func (w *world) start(s setup) {
	m := partition.NewManager(w.ours, w.ours, partition.DefaultConfigMap)
	var provider pools.Provider = pools.Providers{
		KWOK: pools.NewKWOK(w.ours, w.ours, m), Scale: pools.NewScale(w.ours, w.ours), History: pools.NewHistory(w.now),
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
		Cluster: w.ours, Readings: w.exporters.read, Pools: learner{provider}, ConfigMap: partition.DefaultConfigMap, Log: log,
	})
	w.actor = act.New(act.Options{Client: w.ours, Live: w.ours, Pools: provider, Partition: m, Policy: policy, Nominate: true, DryRun: s.dryRun, Log: log})
	o := loop.Options{
		Observer: w.seen, Actor: w.actor, Store: loop.NewStatusStore(w.ours, w.ours), Policy: policy, DryRun: s.dryRun, Log: log,
		Now: w.now, Metrics: loop.NewMetrics(prometheus.NewRegistry()),
	}
	if !s.dryRun {
		o.Publisher = loop.NewAnnouncer(w.ours, record.NewFakeRecorder(10000), log)
	}
	w.loop = loop.New(o)
}

// learner is a provider as observing wants it: what it knows of the past stays as
// the program has it.
type learner struct{ pools.Provider }

func (l learner) Learn(pool *v1alpha1.GPUNodePool, target int, nodes []*corev1.Node) pools.Learned {
	if p, ok := l.Provider.(observe.PoolReader); ok {
		return p.Learn(pool, target, nodes)
	}
	return pools.Learned{}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// pass moves the clock.
func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

// turn is one round.
func (w *world) turn() {
	w.t.Helper()
	w.await("nodes boot", w.booted)
	if err := w.loop.Once(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// booted says which node is still on its way. Where hours have passed a node that was
// made a moment ago is hours old, and one that is not ready then is given up: no round
// is to see that, however busy the machine is.
func (w *world) booted() error {
	var nodes corev1.NodeList
	if err := w.admin.List(w.t.Context(), &nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Annotations[cluster.AnnotationDown] == "" && !isReady(n) {
			return fmt.Errorf("node %s is not ready", n.Name)
		}
	}
	return nil
}

// elapse lets time pass while the autoscaler turns. Who is not looked at for longer
// than readings are believed may have been busy meanwhile.
func (w *world) elapse(d time.Duration) {
	w.t.Helper()
	const step = 25 * time.Second
	for ; d > 0; d -= step {
		w.pass(min(d, step))
		w.turn()
	}
}

func (w *world) turns(n int) {
	w.t.Helper()
	for range n {
		w.turn()
	}
}

const patience = 60 * time.Second

// await waits for the world, in which the autoscaler does not turn.
func (w *world) await(what string, ok func() error) {
	w.t.Helper()
	w.within(what, func() error { return ok() })
}

// until turns the autoscaler until ok says nil.
func (w *world) until(what string, ok func() error) {
	w.t.Helper()
	w.within(what, func() error {
		if err := w.booted(); err != nil {
			return err
		}
		if err := w.loop.Once(w.t.Context()); err != nil {
			return err
		}
		return ok()
	})
}

func (w *world) within(what string, ok func() error) {
	w.t.Helper()
	await.For(w.t, patience, what, ok)
}

// draft is a GPUNodePool whose nodes KWOK plays.
func (w *world) draft(name string, least, most int32) *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.GPUNodePoolSpec{
			Min: least, Max: most, Provider: v1alpha1.Provider{KWOK: &v1alpha1.KWOKProvider{}},
			Template:     v1alpha1.NodeTemplate{Product: product, Cards: perNode, CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi")},
			PricePerHour: ptr.To(resource.MustParse("40")),
			ScaleDown:    v1alpha1.ScaleDown{IdleAfter: &metav1.Duration{Duration: time.Minute}},
		},
	}
}

// pool makes a draft with changes.
func (w *world) pool(name string, least, most int32, change ...func(*v1alpha1.GPUNodePool)) *v1alpha1.GPUNodePool {
	w.t.Helper()
	p := w.draft(name, least, most)
	for _, c := range change {
		c(p)
	}
	w.must(w.admin.Create(w.t.Context(), p))
	return p
}

// edit changes a pool as its owner would.
func (w *world) edit(name string, change func(*v1alpha1.GPUNodePoolSpec)) {
	w.t.Helper()
	w.await("editing pool "+name, func() error {
		p := w.get(name)
		change(&p.Spec)
		return w.admin.Update(w.t.Context(), p)
	})
}

func (w *world) get(name string) *v1alpha1.GPUNodePool {
	w.t.Helper()
	var p v1alpha1.GPUNodePool
	w.must(w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, &p))
	return &p
}

// nodes of a pool, by name.
func (w *world) nodes(pool string) []corev1.Node {
	w.t.Helper()
	var list corev1.NodeList
	w.must(w.admin.List(w.t.Context(), &list, client.MatchingLabels{v1alpha1.NodePoolLabel: pool}))
	return list.Items
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// has is for await and until: so many nodes, all of them ready.
func (w *world) has(pool string, want int) func() error {
	return func() error {
		nodes := w.nodes(pool)
		ready := 0
		for i := range nodes {
			if isReady(&nodes[i]) {
				ready++
			}
		}
		if len(nodes) != want || ready != want {
			return fmt.Errorf("pool %s has %d nodes, %d ready, want %d; %s", pool, len(nodes), ready, want, w.says(pool))
		}
		return nil
	}
}

// says is what a pool's status says.
func (w *world) says(pool string) string {
	s := w.get(pool).Status
	return fmt.Sprintf("%s: %s", s.Reason, s.Message)
}

// reason is for await and until.
func (w *world) reason(pool string, want plan.Reason) func() error {
	return func() error {
		if got := w.says(pool); !strings.HasPrefix(got, string(want)+":") {
			return fmt.Errorf("pool %s says %q, want %s", pool, got, want)
		}
		return nil
	}
}

// condition of a pool, "Status Reason: message"; empty for none.
func (w *world) condition(pool, kind string) string {
	c := meta.FindStatusCondition(w.get(pool).Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// work is a Deployment whose pods want cards of one pool.
func (w *world) work(name, pool string, replicas int32, cards int64, change ...func(*corev1.PodTemplateSpec)) *appsv1.Deployment {
	w.t.Helper()
	labels := map[string]string{"app": name}
	q := *resource.NewQuantity(cards, resource.DecimalSI)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{}},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{v1alpha1.NodePoolLabel: pool},
					Containers: []corev1.Container{{Name: "c", Image: "example/c", Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{"nvidia.com/gpu": q}, Limits: corev1.ResourceList{"nvidia.com/gpu": q},
					}}},
				},
			},
		},
	}
	for _, c := range change {
		c(&d.Spec.Template)
	}
	w.must(w.admin.Create(w.t.Context(), d))
	return d
}

// scale sets a Deployment's replicas.
func (w *world) scale(d *appsv1.Deployment, replicas int32) {
	w.t.Helper()
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	w.must(w.admin.Patch(w.t.Context(), d, client.MergeFrom(before)))
}

// pods of an app, those that are asked to go included.
func (w *world) pods(app string) []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.admin.List(w.t.Context(), &list, client.InNamespace(w.namespace()), client.MatchingLabels{"app": app}))
	return list.Items
}

// runs is for await and until: so many pods of an app are bound and stay.
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

// waits is for await: so many pods of an app have been called unschedulable.
func (w *world) waits(app string, want int) func() error {
	return func() error {
		n := 0
		for _, p := range w.pods(app) {
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == corev1.PodReasonUnschedulable }) {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d pods of %s wait, want %d", n, app, want)
		}
		return nil
	}
}

// budget lets no pod of an app be moved.
func (w *world) budget(app string) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}
	w.must(w.admin.Create(w.t.Context(), b))
	w.await("the budget is counted", func() error {
		if err := w.admin.Get(w.t.Context(), client.ObjectKeyFromObject(b), b); err != nil {
			return err
		}
		if b.Status.ObservedGeneration < b.Generation || b.Status.ExpectedPods == 0 {
			return errors.New("it is not")
		}
		return nil
	})
	return b
}

// node as it is now.
func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	var n corev1.Node
	w.must(w.admin.Get(w.t.Context(), client.ObjectKey{Name: name}, &n))
	return &n
}

// patchNode changes a node as somebody else would.
func (w *world) patchNode(name string, change func(*corev1.Node)) {
	w.t.Helper()
	n := w.node(name)
	before := n.DeepCopy()
	change(n)
	w.must(w.admin.Patch(w.t.Context(), n, client.MergeFrom(before)))
}

// untouched fails where a node carries anything of ours, or is cordoned.
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

// draining is for await and until.
func (w *world) draining(name string) func() error {
	return func() error {
		n := w.node(name)
		if _, ok, err := v1alpha1.DrainOf(n); !ok || err != nil || !n.Spec.Unschedulable {
			return fmt.Errorf("node %s: drain %v (%v), cordoned %v", name, ok, err, n.Spec.Unschedulable)
		}
		return nil
	}
}

// clean takes away all that the test made.
func (w *world) clean() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	zero := client.GracePeriodSeconds(0)
	in := client.InNamespace(w.namespace())
	for _, err := range []error{
		w.admin.DeleteAllOf(ctx, &appsv1.Deployment{}, in, client.PropagationPolicy(metav1.DeletePropagationBackground)),
		w.admin.DeleteAllOf(ctx, &policyv1.PodDisruptionBudget{}, in),
		w.admin.DeleteAllOf(ctx, &v1alpha1.GPUNodePool{}), w.admin.DeleteAllOf(ctx, &v1alpha1.GPUQuota{}),
	} {
		if err != nil {
			w.t.Error("cleaning up: ", err)
		}
	}
	if err := await.Until(ctx, func(ctx context.Context) error {
		var pods corev1.PodList
		var sets appsv1.ReplicaSetList
		if err := errors.Join(w.admin.List(ctx, &sets, in), w.admin.List(ctx, &pods, in)); err != nil {
			return await.Final(err)
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if len(p.Finalizers) > 0 {
				before := p.DeepCopy()
				p.Finalizers = nil
				_ = w.admin.Patch(ctx, p, client.MergeFrom(before))
			}
			_ = w.admin.Delete(ctx, p, zero)
		}
		if left := len(pods.Items) + len(sets.Items); left > 0 {
			return fmt.Errorf("%d pods and ReplicaSets are left", left)
		}
		return nil
	}); err != nil {
		w.t.Error("cleaning up: ", err)
	}
	if err := w.admin.DeleteAllOf(ctx, &corev1.Node{}); err != nil && !apierrors.IsNotFound(err) {
		w.t.Error("cleaning up: ", err)
	}
}
