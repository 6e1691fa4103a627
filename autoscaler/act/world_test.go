package act

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// world is a small cluster: pool "p" with node "p-1", one H100 with seven 1g instances.
type world struct {
	t      *testing.T
	client client.WithWatch
	writes int
	// evicted are the evicted pods, with the UID of the precondition.
	evicted []string
	// graces are the same pods' names, with the grace period in seconds where it is not
	// the pod's own.
	graces []string
	// contended are pods whose PodDisruptionBudget other clients keep changing: kube-apiserver 1.37 gives up after ten
	// seconds with the conflict. A nil map has none.
	contended map[string]bool
	// full are pods whose PodDisruptionBudget allows no disruption.
	full map[string]bool
	// conflicts is how many patches fail because another client wrote first.
	conflicts int
	actor     *Actor
	snap      plan.Snapshot
}

func newWorld(t *testing.T, change func(*Options), more ...client.Object) *world {
	t.Helper()
	w := &world{t: t, full: map[string]bool{}}
	w.client = kubefake.New(kinds).
		WithObjects(append(more, testPool(), testNode())...).
		WithStatusSubresource(&v1alpha1.GPUNodePool{}, &corev1.Pod{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				w.writes++
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				w.writes++
				return c.Update(ctx, o, opts...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if w.writes++; w.conflicts > 0 {
					w.conflicts--
					return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), nil)
				}
				return c.Patch(ctx, o, p, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				w.writes++
				return c.Delete(ctx, o, opts...)
			},
			SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
				if eviction, ok := body.(*policyv1.Eviction); ok {
					if w.contended[o.GetName()] {
						return apierrors.NewConflict(policyv1.Resource("poddisruptionbudgets"), "budget", errors.New("the object has been modified"))
					}
					if w.full[o.GetName()] {
						return apierrors.NewTooManyRequests("the budget allows no disruption", 0)
					}
					grace := eviction.Name
					if s := eviction.DeleteOptions.GracePeriodSeconds; s != nil {
						grace += fmt.Sprintf(" %d", *s)
					}
					w.graces = append(w.graces, grace)
					w.evicted = append(w.evicted, fmt.Sprintf("%s/%s %s", eviction.Namespace, eviction.Name, *eviction.DeleteOptions.Preconditions.UID))
				}
				return c.SubResource(sub).Create(ctx, o, body, opts...)
			},
		}).Build()
	m := partition.NewManager(w.client, w.client, partition.DefaultConfigMap)
	policy := plan.DefaultPolicy()
	policy.ReclaimBorrowed = true
	o := Options{
		Client: w.client, Live: w.client, Partition: m, Policy: policy,
		Pools: pools.Providers{GRPC: nodegroups.New(w.client, w.client)},
	}
	if change != nil {
		change(&o)
	}
	w.actor = New(o)
	w.snap = plan.Snapshot{Now: start, Nodes: []plan.Node{{
		Name: "p-1", Pool: "p", Created: start, Ready: true, GPUs: []plan.GPU{sevenths()},
	}}}
	return w
}

func testPool() *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1alpha1.GPUNodePoolSpec{
			Min: 0, Max: 3,
			Provider: nodegroups.Of("p"),
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", GPUs: 1,
				CPU: resource.MustParse("32"), Memory: resource.MustParse("256Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"1g.10gb": 7}}},
		},
	}
}

func testNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p-1", CreationTimestamp: metav1.NewTime(start),
			Labels: map[string]string{v1alpha1.NodePoolLabel: "p", contract.StateLabel: contract.StateSuccess},
		},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("7")}},
	}
}

func h100() *mig.Table {
	table, _ := mig.ForModel("H100-80GB")
	return table
}

func layout(t *testing.T, text string) mig.Layout {
	t.Helper()
	l, err := mig.ParseLayout(h100(), text)
	require.NoError(t, err)
	return l
}

// sevenths is a free GPU with seven 1g instances.
func sevenths() plan.GPU {
	model, _ := gpu.ParseProduct("H100-80GB")
	c := plan.GPU{Device: gpu.Device{Model: model}, MIG: true, AllocationKnown: true}
	profile, _ := h100().Exact("1g.10gb")
	for i := range 7 {
		c.Instances = append(c.Instances, plan.Instance{Placement: mig.Placement{Profile: profile, Start: i}, Placed: true})
	}
	return c
}

// repartition is the action that makes two 3g instances of the GPU.
func (w *world) repartition() plan.Action {
	return plan.Action{
		Verb: plan.Repartition, Pool: "p", Node: "p-1", Model: "H100-80GB", Operation: "op",
		Before: partition.Placements(sevenths()), Target: layout(w.t, "3g.40gb@0 3g.40gb@4"),
		Deadline: start.Add(5 * time.Minute), Reason: plan.NoFreeSlice,
	}
}

func (w *world) do(actions ...plan.Action) Result {
	w.t.Helper()
	results := w.actor.Apply(w.t.Context(), w.snap, plan.Plan{Actions: actions})
	return results[len(results)-1]
}

// want carries out the action and fails the test unless it has this outcome. A repartition settles.
func (w *world) want(outcome Outcome, action plan.Action) {
	w.t.Helper()
	if r := w.do(action); r.Outcome != outcome {
		w.t.Fatalf("%s: %s (%v), want %s", action.Verb, r.Outcome, r.Err, outcome)
	}
	if action.Verb == plan.Repartition && outcome == Done {
		w.must(w.resume(w.snap.Now.Add(settleDelay)))
	}
}

// resume resumes the operations that the nodes have at a time.
func (w *world) resume(at time.Time) error {
	w.t.Helper()
	var nodes corev1.NodeList
	w.must(w.client.List(w.t.Context(), &nodes))
	s := plan.Snapshot{Now: at}
	for i := range nodes.Items {
		s.Nodes = append(s.Nodes, plan.Node{Name: nodes.Items[i].Name, Operation: partition.OperationOf(&nodes.Items[i])})
	}
	return w.actor.resume(w.t.Context(), s)
}

func (w *world) node() *corev1.Node {
	w.t.Helper()
	var n corev1.Node
	w.must(w.client.Get(w.t.Context(), client.ObjectKey{Name: "p-1"}, &n))
	return &n
}

// must fails the test for an error.
func (w *world) must(err error) {
	w.t.Helper()
	require.NoError(w.t, err)
}

// record is the operation recorded on the node.
func (w *world) record() contract.Record {
	w.t.Helper()
	r, ok, err := contract.RecordOf(w.node())
	if !ok || err != nil {
		w.t.Fatalf("record %+v, %v, %v", r, ok, err)
	}
	return r
}

// inService fails the test if the node is cordoned or has an operation under way.
func (w *world) inService() {
	w.t.Helper()
	if n := w.node(); n.Spec.Unschedulable || n.Annotations[contract.RecordAnnotation]+n.Annotations[v1alpha1.DrainAnnotation]+n.Annotations[v1alpha1.CordonAnnotation] != "" {
		w.t.Errorf("cordoned %v, annotations %v", n.Spec.Unschedulable, n.Annotations)
	}
}

// configMap is mig-manager's, and its content.
func (w *world) configMap() (*corev1.ConfigMap, partition.Config) {
	w.t.Helper()
	var cm corev1.ConfigMap
	w.must(w.client.Get(w.t.Context(), partition.DefaultConfigMap, &cm))
	c, err := partition.ParseConfig(cm.Data[partition.ConfigKey])
	w.must(err)
	return &cm, c
}

func (w *world) configs() partition.Config { _, c := w.configMap(); return c }

// answer fakes mig-manager and the device plugin.
func (w *world) answer(state string, offered map[string]string) {
	w.t.Helper()
	n := w.node()
	n.Labels[contract.StateLabel] = state
	w.must(w.client.Update(w.t.Context(), n))
	n.Status.Allocatable = corev1.ResourceList{}
	for name, q := range offered {
		n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse(q)
	}
	w.must(w.client.Status().Update(w.t.Context(), n))
}

func gpuPod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("1")}},
		}}},
	}
}

// replica is a gpuPod with a controller and a UID.
func replica(name, node string, annotations ...string) *corev1.Pod {
	p := gpuPod(name, node)
	p.UID, p.CreationTimestamp = types.UID("uid-"+name), metav1.NewTime(start)
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: ptr.To(true)}}
	p.Annotations = map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	return p
}

// tolerant is a pod whose successor the scheduler may bind to the same node, cordoned or not.
func tolerant(name string) *corev1.Pod {
	p := replica(name, "p-1")
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return p
}

// onDisk is an emptyDir on a node's disk.
func onDisk() []corev1.Volume {
	return []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}

// pods are the names of the pods there are, sorted.
func (w *world) pods() []string {
	w.t.Helper()
	var list corev1.PodList
	w.must(w.client.List(w.t.Context(), &list))
	var names []string
	for _, p := range list.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return names
}

// edit changes an object, as another client would.
func edit[T client.Object](w *world, o T, change func(T)) {
	w.t.Helper()
	w.must(w.client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o))
	change(o)
	w.must(w.client.Update(w.t.Context(), o))
}

func annotate(n *corev1.Node, key, value string) {
	metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value)
}

// leased is an API server with a lease; it counts writes.
type leased struct {
	t      *testing.T
	client client.WithWatch
	key    client.ObjectKey
	writes int
	unread bool // the lease cannot be read
}

func newLeased(t *testing.T, holder string) *leased {
	t.Helper()
	l := &leased{t: t, key: client.ObjectKey{Namespace: "s", Name: "lease"}}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: ptr.To[int32](4),
			RenewTime: ptr.To(metav1.NewMicroTime(start)), LeaseDurationSeconds: ptr.To[int32](15),
		},
	}
	l.client = kubefake.New(kinds).WithObjects(lease).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if key == l.key && l.unread {
					return errors.New("no answer")
				}
				return c.Get(ctx, key, o, opts...)
			},
		}).Build()
	return l
}

// epoch returns this replica's epoch, begun.
func (l *leased) epoch(now func() time.Time) *Epoch {
	l.t.Helper()
	e := &Epoch{Holder: "us", Lease: l.key, Live: l.client, Now: now, Log: slog.New(slog.DiscardHandler)}
	require.NoError(l.t, e.Begin(l.t.Context(), 0))
	return e
}

// change updates the lease, as another replica would.
func (l *leased) change(do func(*coordinationv1.LeaseSpec)) {
	l.t.Helper()
	var lease coordinationv1.Lease
	require.NoError(l.t, l.client.Get(l.t.Context(), l.key, &lease))
	do(&lease.Spec)
	require.NoError(l.t, l.client.Update(l.t.Context(), &lease))
}

// countedPools is a provider that only counts writes.
type countedPools struct {
	pools.Provider
	wrote func() error
}

func (c countedPools) SetSize(context.Context, *v1alpha1.GPUNodePool, int, int) error {
	return c.wrote()
}
func (c countedPools) Delete(context.Context, *v1alpha1.GPUNodePool, *corev1.Node, bool) error {
	return c.wrote()
}

// every returns all kinds of requests, by name.
func (l *leased) every(e *Epoch) map[string]func(context.Context) error {
	l.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { l.writes++ }))
	l.t.Cleanup(server.Close)
	c, err := rest.HTTPClientFor(Fence(&rest.Config{}, e))
	require.NoError(l.t, err)
	p := pools.Providers{GRPC: countedPools{nil, func() error { l.writes++; return nil }}, May: e.May}
	out := map[string]func(context.Context) error{
		"set size":     func(ctx context.Context) error { return p.SetSize(ctx, testPool(), 1, 3) },
		"delete nodes": func(ctx context.Context) error { return p.Delete(ctx, testPool(), testNode(), false) },
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		out[method] = func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, method, server.URL, strings.NewReader("{}"))
			if err != nil {
				return err
			}
			answer, err := c.Do(r)
			if err == nil {
				err = answer.Body.Close()
			}
			return err
		}
	}
	return out
}

func TestEveryWriteChecksLeadership(t *testing.T) {
	for _, test := range []struct {
		name    string
		change  func(l *leased)
		now     time.Time
		deposed bool // refused with ErrDeposed, not with another error
		refused bool
	}{
		{name: "leading", change: func(*leased) {}},
		{name: "another holds the lease", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("another") })
		}},
		{name: "another has held the lease since", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.LeaseTransitions = ptr.To[int32](6) })
		}},
		{name: "no holder", deposed: true, refused: true, change: func(l *leased) {
			l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("") })
		}},
		{name: "expired", deposed: true, refused: true, change: func(*leased) {}, now: start.Add(16 * time.Second)},
		{name: "about to expire", change: func(*leased) {}, now: start.Add(15 * time.Second)},
		{name: "the API server does not answer", refused: true, change: func(l *leased) { l.unread = true }},
		{name: "the lease is gone", refused: true, change: func(l *leased) {
			require.NoError(l.t, l.client.Delete(l.t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.key.Namespace, Name: l.key.Name}}))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLeased(t, "us")
			now := start
			e := l.epoch(func() time.Time { return now })
			test.change(l)
			if !test.now.IsZero() {
				now = test.now
			}
			for name, write := range l.every(e) {
				refused, before := test.refused && name != http.MethodGet, l.writes // reads pass
				err := write(t.Context())
				switch wrote := l.writes - before; {
				case !refused && (err != nil || wrote != 1):
					t.Errorf("%s: %v, %d writes, want one", name, err, wrote)
				case refused && (err == nil || wrote != 0):
					t.Errorf("%s: %v, %d writes, want none", name, err, wrote)
				case refused && errors.Is(err, ErrDeposed) != test.deposed:
					t.Errorf("%s: %v: deposed is %t", name, err, !test.deposed)
				case refused && test.deposed && outcome(err, false) != Refused:
					t.Errorf("%s: outcome %s of %v", name, outcome(err, false), err)
				}
			}
		})
	}
}

// TestRefusedEvictionReturnsAtOnce: an eviction whose refusal has a time to wait, as for a budget that its controller
// has not seen yet, delays no other eviction.
func TestRefusedEvictionReturnsAtOnce(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		rw.Header().Set("Retry-After", "1")
		http.Error(rw, "the budget is still being processed", http.StatusTooManyRequests)
	}))
	defer server.Close()
	e := newLeased(t, "us").epoch(func() time.Time { return start })
	c, err := client.New(Fence(&rest.Config{Host: server.URL}, e), client.Options{Scheme: kinds, Mapper: testrestmapper.TestOnlyStaticRESTMapper(kinds)})
	require.NoError(t, err)
	if err := New(Options{Client: c}).evict(t.Context(), replica("a", "p-1"), nil); !apierrors.IsTooManyRequests(err) || asked.Load() != 1 {
		t.Errorf("%d requests, %v", asked.Load(), err)
	}
}

// TestAnEpochDoesNotComeBack: a deposed replica stays deposed although the lease has its name again, since its snapshot
// is older.
func TestAnEpochDoesNotComeBack(t *testing.T) {
	l := newLeased(t, "us")
	e := l.epoch(func() time.Time { return start })
	l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("another") })
	if err := e.May(t.Context(), "test"); !errors.Is(err, ErrDeposed) {
		t.Fatal(err)
	}
	l.change(func(s *coordinationv1.LeaseSpec) { s.HolderIdentity = ptr.To("us") })
	if err := e.May(t.Context(), "test"); !errors.Is(err, ErrDeposed) {
		t.Errorf("leading again: %v", err)
	}
}

func TestTerms(t *testing.T) {
	l := newLeased(t, "us")
	for _, test := range []struct {
		name   string
		lease  client.ObjectKey
		latest int64
		want   int64
	}{
		{"the lease counts", l.key, 0, 4},
		{"the lease was deleted and recreated", l.key, 9, 10},
		{"no lease", client.ObjectKey{}, 2, 3},
	} {
		e := &Epoch{Holder: "us", Lease: test.lease, Live: l.client, Now: func() time.Time { return start }, Log: slog.New(slog.DiscardHandler)}
		require.NoError(t, e.Begin(t.Context(), test.latest))
		if got := e.Stamp().Term; got != test.want {
			t.Errorf("%s: term %d, want %d", test.name, got, test.want)
		}
		for last, follows := range map[v1alpha1.Epoch]bool{
			{Term: test.want - 1, Holder: "another"}: true,
			{Term: test.want, Holder: "us"}:          true,
		} {
			if err := e.Follows(&last); (err == nil) != follows {
				t.Errorf("%s: after %v: %v", test.name, last, err)
			}
		}
		if err := e.Follows(nil); err != nil {
			t.Errorf("%s: a pool without an epoch: %v", test.name, err)
		}
		if err := e.Follows(&v1alpha1.Epoch{Term: test.want, Holder: "another"}); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s: two in one term: %v", test.name, err)
		}
	}
}

// kinds are those of the fakes; making them takes longer than most tests.
var kinds = scheme.New()
