package loop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
	"github.com/gpuscale/gpuscale/plan/sim"
)

// onePending is a pool that has to grow for one pod.
const onePending = `
tick at=2026-11-21T09:00:00Z
pool p max=4 price=2 gpus=1 model=H100-80GB
pod chat/a requests=gpu pending=10s
`

// rig runs a Loop over the simulated cluster and records its steps.
type rig struct {
	t        *testing.T
	world    sim.World
	log      []string
	failing  map[string]error
	ignored  observe.Ignored
	exceeded []observe.Exceeded
	state    plan.State // that is loaded
	unsaved  map[string]error
	loop     *Loop
	metrics  *prometheus.Registry
}

func newRig(t *testing.T, text string, change func(*Options)) *rig {
	t.Helper()
	snapshot, policy, err := scenario.Parse(text)
	require.NoError(t, err)
	r := &rig{t: t, world: sim.World{State: snapshot}, failing: map[string]error{}, metrics: prometheus.NewRegistry()}
	o := Options{
		Observer: r, Actor: r, Store: r, Policy: policy, Registry: r.metrics,
		Now: func() time.Time { return r.world.State.Now },
	}
	if change != nil {
		change(&o)
	}
	r.loop = New(o)
	return r
}

func (r *rig) note(what string) error {
	r.log = append(r.log, what)
	return r.failing[what]
}

func (r *rig) Observe(context.Context, time.Time) (observe.Observation, error) {
	s := r.world.Snapshot()
	s.State = plan.State{}
	return observe.Observation{Snapshot: s, Ignored: r.ignored, Exceeded: r.exceeded}, r.note("observe")
}

func (r *rig) Load(context.Context) (plan.State, error) { return r.state, r.note("load") }

func (r *rig) Save(_ context.Context, _ plan.Snapshot, m plan.State) (map[string]error, error) {
	if len(m.LastScaleUp) > 0 {
		return r.unsaved, r.note("save scale-up")
	}
	return r.unsaved, r.note("save")
}

func (r *rig) Apply(_ context.Context, _ plan.Snapshot, p plan.Plan) []act.Result {
	var results []act.Result
	for _, a := range p.Actions {
		_ = r.note("act " + string(a.Verb))
		results = append(results, act.Result{Action: a, Outcome: act.Done})
	}
	if err := r.world.Apply(p); err != nil {
		r.t.Error(err)
	}
	return results
}

// want reconciles once and compares the error and the steps.
func (r *rig) want(err error, steps ...string) {
	r.t.Helper()
	r.log = nil
	if got := r.loop.Once(r.t.Context()); !errors.Is(got, err) {
		r.t.Errorf("err = %v, want %v", got, err)
	}
	if !slices.Equal(r.log, steps) {
		r.t.Errorf("did %q, want %q", r.log, steps)
	}
}

func TestPersistedBeforeActed(t *testing.T) {
	r := newRig(t, onePending, nil)
	r.want(nil, "load", "observe", "save scale-up", "act scale-up")
	r.world.Advance(time.Second)
	r.want(nil, "observe", "save scale-up")
	reconcile, ok := r.loop.State.Last()
	if !ok || len(reconcile.State.LastScaleUp) != 1 {
		t.Errorf("state %+v is not passed to the next reconcile", reconcile.State)
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP gpuscale_autoscaler_reconciles_total Reconciles (observe, plan, act), by result: "ok" or "error".
# TYPE gpuscale_autoscaler_reconciles_total counter
gpuscale_autoscaler_reconciles_total{result="ok"} 2
`), "gpuscale_autoscaler_reconciles_total"); err != nil {
		t.Error(err)
	}
}

// TestStateOfAClockAhead: times recorded by a leader whose clock was five hours ahead count as if they were recorded
// now, not until its clock's time.
func TestStateOfAClockAhead(t *testing.T) {
	r := newRig(t, onePending, nil)
	ahead := r.world.State.Now.Add(5 * time.Hour)
	stamps := func() plan.Times { return plan.Times{"p": ahead} }
	saved := poolState(plan.State{
		LastScaleUp: stamps(), LastScaleDown: stamps(), LastRepartition: stamps(), SickSince: stamps(), LastReplace: stamps(), LastDrain: stamps(),
		Grown: map[string][]plan.Growth{"p": {{At: ahead, Nodes: 1000}}}, Removed: map[string][]plan.Growth{"p": {{At: ahead, Nodes: 1}}}, Failures: map[string]plan.Failure{"p": {At: ahead}},
	}, "p", map[string]string{"p": "p"}, v1alpha1.PlannerState{})
	r.state = stateOf([]v1alpha1.GPUNodePool{poolWith(saved)})
	r.want(nil, "load", "observe", "save scale-up")
	if text := scenario.Print(plan.Snapshot{Now: r.world.State.Now, State: r.state}); strings.Contains(text, "14:00") {
		t.Errorf("times to come are kept: %s", text)
	}
	r.world.Advance(61 * time.Minute)
	r.want(nil, "observe", "save scale-up", "act scale-up")
}

func TestNoActionUnlessStateIsPersisted(t *testing.T) {
	r := newRig(t, onePending, nil)
	lost := errors.New("etcd is away")
	r.failing["save scale-up"] = lost
	r.want(lost, "load", "observe", "save scale-up")
	r.failing = map[string]error{"observe": lost}
	r.want(lost, "observe")
	r.failing = nil
	r.want(nil, "observe", "save scale-up", "act scale-up")
}

// TestSkippedSteps: the steps under a freeze, in a dry run, and if the state cannot be
// loaded.
func TestSkippedSteps(t *testing.T) {
	lost := errors.New("forbidden")
	newRig(t, onePending, func(o *Options) { o.Policy.Freeze = true }).want(nil, "load", "observe", "save")
	newRig(t, onePending, func(o *Options) { o.DryRun = true }).want(nil, "load", "observe", "act scale-up")
	r := newRig(t, onePending, nil)
	r.failing["load"] = lost
	r.want(lost, "load")
	r.want(lost, "load")
}

// TestUnsavedPool: no action is taken on a pool whose state is not saved; all others are. It is logged once.
func TestUnsavedPool(t *testing.T) {
	var log bytes.Buffer
	r := newRig(t, onePending+"pool q max=4 price=2 gpus=1 model=L40S no-mig labels=(of=q)\npod chat/b requests=gpu pending=10s selector=(of=q)\n",
		func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	r.unsaved = map[string]error{"p": errors.New("spec.min: above max")}
	r.want(nil, "load", "observe", "save scale-up", "act scale-up")
	last, _ := r.loop.State.Last()
	if len(last.Plan.Actions) != 1 || last.Plan.Actions[0].Pool != "q" {
		t.Errorf("actions %v", last.Plan.Actions)
	}
	if m := r.loop.state; len(m.LastScaleUp) != 1 || m.LastScaleUp["q"].IsZero() || len(m.Grown) != 1 || len(m.Grown["q"]) != 1 {
		t.Errorf("an action that was not taken is in the state: %+v", m)
	}
	if len(last.Contained) != 0 || last.Unsaved["p"] == nil || testutil.ToFloat64(r.loop.metrics.unsaved) != 1 {
		t.Errorf("contained %v, unsaved %v, counted %v: the pool is valid", last.Contained, last.Unsaved, testutil.ToFloat64(r.loop.metrics.unsaved))
	}
	require.NoError(t, r.loop.Once(t.Context()))
	if n := strings.Count(log.String(), "the state of a pool is not saved"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

func TestLiveAndReady(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &State{interval: time.Second, now: func() time.Time { return now }}
	if s.Live() != nil || s.Ready() != nil {
		t.Error("a replica that does not lead is live and ready")
	}
	s.set(func(s *State) { s.leading, s.last = true, now })
	if s.Ready() == nil {
		t.Error("ready without a reconcile")
	}
	s.ended(nil)
	s.set(func(s *State) { s.reconcile = &Reconcile{} })
	require.NoError(t, s.Ready())
	now = now.Add(45 * time.Second) // four providers that hang for ten seconds each
	require.NoError(t, s.Live())
	now = now.Add(time.Minute)
	if s.Live() == nil {
		t.Error("live though no reconcile has ended for minutes")
	}
	s.ended(errors.New("x"))
	if s.Live() != nil || s.Ready() == nil {
		t.Error("after a failed reconcile: want live and not ready")
	}
}

type publishFunc func()

func (p publishFunc) Publish(context.Context, Reconcile) { p() }

// TestPlannerPanicFailsOneReconcile: a panic of the planner is an error of its reconcile, which writes nothing and
// takes no action; the next one plans again.
func TestPlannerPanicFailsOneReconcile(t *testing.T) {
	var log bytes.Buffer
	panics := true
	r := newRig(t, onePending, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Plan = func(s plan.Snapshot, p plan.Policy) plan.Plan {
			if panics {
				var none []int
				_ = none[len(s.Pods)]
			}
			return plan.Make(s, p)
		}
	})
	r.loop.Lead(true)
	r.log = nil
	err := r.loop.Once(t.Context())
	var caught *PlannerPanic
	if !errors.As(err, &caught) || !strings.Contains(err.Error(), "index out of range") {
		t.Fatalf("err = %v", err)
	}
	if !slices.Equal(r.log, []string{"load", "observe"}) {
		t.Errorf("did %q", r.log)
	}
	if r.loop.State.Live() != nil || r.loop.State.Ready() == nil {
		t.Error("want live, so that kubelet does not restart the pod, and not ready")
	}
	if s, ok := r.loop.State.Snapshot(); !ok || len(s.Pods) != 1 {
		t.Error("the snapshot of the panic is not available")
	}
	if !strings.Contains(log.String(), "loop_test.go") {
		t.Errorf("the log has no stack:\n%s", log.String())
	}
	panics = false
	r.world.Advance(time.Second)
	r.want(nil, "observe", "save scale-up", "act scale-up")
	require.NoError(t, r.loop.State.Ready())
	if s, _ := r.loop.State.Snapshot(); r.loop.State.Panic() == nil || !s.Now.After(caught.At) {
		t.Error("want the new snapshot, and the old panic")
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP gpuscale_autoscaler_planner_panics_total Reconciles in which the planner panicked and nothing was done: a bug; report it with the output of /debug/panic.
# TYPE gpuscale_autoscaler_planner_panics_total counter
gpuscale_autoscaler_planner_panics_total 1
`), "gpuscale_autoscaler_planner_panics_total"); err != nil {
		t.Error(err)
	}
}

// TestLeftOutIsCounted: the gauges have what the last reconcile left out: ignored reports even where there are none, a
// namespace while it exceeds a limit.
func TestLeftOutIsCounted(t *testing.T) {
	r := newRig(t, onePending, nil)
	for i, ignored := range []observe.Ignored{{Nodes: 1, GPUs: 2, Disputed: 3}, {GPUs: 2}} {
		r.ignored, r.exceeded = ignored, []observe.Exceeded{{Namespace: string(rune('a' + i)), Limit: observe.LimitRules, Pods: 2 + i}}
		require.NoError(t, r.loop.Once(t.Context()))
	}
	for want, of := range map[string]metric.Desc{
		"NAME{reason=\"disputed\"} 0\nNAME{reason=\"unknown_gpu\"} 2\nNAME{reason=\"unknown_node\"} 0\n": metric.AutoscalerReportsIgnored,
		"NAME{namespace=\"b\",reason=\"topology_rules\"} 3\n":                                            metric.AutoscalerLimitExceeded,
	} {
		want = strings.ReplaceAll("# HELP NAME "+of.Help+"\n# TYPE NAME gauge\n"+want, "NAME", of.Name)
		require.NoError(t, testutil.GatherAndCompare(r.metrics, strings.NewReader(want), of.Name))
	}
}

func TestSnapshotAge(t *testing.T) {
	at := time.Unix(1000, 0)
	a := newAges(func() time.Time { return at.Add(3 * time.Second) })
	want := func(text string) {
		t.Helper()
		require.NoError(t, testutil.CollectAndCompare(a, strings.NewReader(text)))
	}
	const head = `
# HELP gpuscale_autoscaler_snapshot_age_seconds Age of the data of the last plan, by kind: "cluster" since it was read, "prometheus" since it was queried. Absent where nothing was read.
# TYPE gpuscale_autoscaler_snapshot_age_seconds gauge
`
	want("")
	a.observed(at, -1)
	want(head + "gpuscale_autoscaler_snapshot_age_seconds{kind=\"cluster\"} 3\n")
	a.observed(at, 2*time.Second)
	want(head + "gpuscale_autoscaler_snapshot_age_seconds{kind=\"cluster\"} 3\ngpuscale_autoscaler_snapshot_age_seconds{kind=\"prometheus\"} 5\n")
}

// fleetSeries counts the series of package fleet.
func fleetSeries(t *testing.T, r *rig) int {
	t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	n := 0
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "gpuscale_autoscaler_gpus") || strings.HasPrefix(name, "gpuscale_autoscaler_pod_pending") || name == "gpuscale_autoscaler_decision_seconds" {
			n += len(f.GetMetric())
		}
	}
	return n
}

// TestOnlyTheLeaderExportsTheFleet: a replica has series of the fleet only while it leads.
func TestOnlyTheLeaderExportsTheFleet(t *testing.T) {
	r := newRig(t, onePending+"node n pool=p\n", func(o *Options) { o.Interval = time.Hour })
	if n := fleetSeries(t, r); n != 0 {
		t.Errorf("%d series before it leads", n)
	}
	reconciles := make(chan struct{}, 1)
	r.loop.o.Publisher = publishFunc(func() { reconciles <- struct{}{} })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.loop.Run(ctx) }()
	<-reconciles
	if n := fleetSeries(t, r); n == 0 {
		t.Error("the leader has no series")
	}
	cancel()
	require.NoError(t, <-ended)
	if n := fleetSeries(t, r); n != 0 {
		t.Errorf("%d series after it led", n)
	}
}

// TestNodesOfAPool: upcoming nodes are counted separately from unready ones, and a fixed pool has no min and max.
func TestNodesOfAPool(t *testing.T) {
	r := newRig(t, `
tick at=2026-11-21T09:00:00Z
pool p max=9 target=5 size=3 gpus=1 model=L40S no-mig
node a pool=p
node b pool=p unready
node c pool=p
`, nil)
	r.world.State.Pools = append(r.world.State.Pools, plan.Pool{Name: "q", Fixed: true, Min: 2, Max: 2, Target: 2, Size: 2})
	require.NoError(t, r.loop.Once(t.Context()))
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP gpuscale_autoscaler_pool_nodes Nodes of a pool, by kind: "min", "max", "target", "size" of those that exist, "ready", "unready" of those, "upcoming" of those that were requested and do not exist yet.
# TYPE gpuscale_autoscaler_pool_nodes gauge
gpuscale_autoscaler_pool_nodes{kind="max",pool="p"} 9
gpuscale_autoscaler_pool_nodes{kind="min",pool="p"} 0
gpuscale_autoscaler_pool_nodes{kind="ready",pool="p"} 2
gpuscale_autoscaler_pool_nodes{kind="ready",pool="q"} 0
gpuscale_autoscaler_pool_nodes{kind="size",pool="p"} 3
gpuscale_autoscaler_pool_nodes{kind="size",pool="q"} 2
gpuscale_autoscaler_pool_nodes{kind="target",pool="p"} 5
gpuscale_autoscaler_pool_nodes{kind="target",pool="q"} 2
gpuscale_autoscaler_pool_nodes{kind="unready",pool="p"} 1
gpuscale_autoscaler_pool_nodes{kind="unready",pool="q"} 2
gpuscale_autoscaler_pool_nodes{kind="upcoming",pool="p"} 2
gpuscale_autoscaler_pool_nodes{kind="upcoming",pool="q"} 0
`), "gpuscale_autoscaler_pool_nodes"); err != nil {
		t.Error(err)
	}
}

var provReq = schema.GroupVersionKind{Group: "autoscaling.x-k8s.io", Version: "v1", Kind: "ProvisioningRequest"}

// requested is an API server with one ProvisioningRequest of two pods, and the Publisher.
type requested struct {
	t   *testing.T
	c   client.Client
	p   *ClusterPublisher
	now time.Time
	// class and parameters of the request, and what it is reconciled with.
	request observe.Request
	reason  plan.Reason // of its pods' verdicts
	failed  bool        // the action for them fails
}

func newRequested(t *testing.T, class string) *requested {
	t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(provReq)
	u.SetNamespace("ml")
	u.SetName("train")
	s := scheme.New()
	s.AddKnownTypeWithName(provReq, &unstructured.Unstructured{})
	s.AddKnownTypeWithName(provReq.GroupVersion().WithKind("ProvisioningRequestList"), &unstructured.UnstructuredList{})
	w := &requested{t: t, now: start.Truncate(time.Second), reason: plan.NoPoolFits}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{provReq.GroupVersion()})
	mapper.Add(provReq, meta.RESTScopeNamespace)
	w.c = fake.NewClientBuilder().WithScheme(s).WithRESTMapper(mapper).WithRuntimeObjects(u).WithStatusSubresource(u).Build()
	w.p = NewClusterPublisher(w.c, record.NewFakeRecorder(10), slog.New(slog.DiscardHandler))
	o := &foreign.Object{Kind: foreign.ProvisioningRequest, Request: &foreign.Request{Class: class}}
	o.Namespace, o.Name, o.CreationTimestamp = "ml", "train", metav1.NewTime(w.now)
	w.request = observe.Request{Object: o, Owner: "ProvisioningRequest/train", Gang: "ml/provisioningrequest/train"}
	return w
}

// reconcile once after a time, and returns the conditions as "type=status reason".
func (w *requested) reconcile(after time.Duration) string {
	w.t.Helper()
	w.now = w.now.Add(after)
	r := Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{Now: w.now}}}
	pods := w.request.Check
	if len(pods) == 0 && w.reason != "" {
		for i := range 2 {
			pod := plan.Pod{Namespace: "ml", Name: fmt.Sprintf("train~%d", i), Owner: w.request.Owner, Gang: w.request.Gang}
			r.Pods = append(r.Pods, pod)
			r.Plan.Verdicts = append(r.Plan.Verdicts, plan.Verdict{Kind: plan.KindPod, Subject: pod.Key(), Reason: w.reason})
		}
	}
	if w.failed {
		r.Results = []act.Result{{Action: plan.Action{Verb: plan.ScaleUp, For: []string{"ml/train~0"}}, Outcome: act.Failed, Err: errors.New("stockout")}}
	}
	r.Plans = func(s plan.Snapshot) (out plan.Plan, _ error) {
		if !slices.ContainsFunc(s.Pods, func(p plan.Pod) bool { return p.Key() == pods[0].Key() }) {
			w.t.Error("the check's pods are not in its snapshot")
		}
		for _, pool := range s.Pools {
			if !pool.Freeze {
				w.t.Error("a check may add nodes")
			}
		}
		for i := range pods {
			out.Verdicts = append(out.Verdicts, plan.Verdict{Kind: plan.KindPod, Subject: pods[i].Key(), Reason: w.reason})
		}
		return out, nil
	}
	r.Pools = []plan.Pool{{Name: "p"}}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(provReq)
	get := func() {
		require.NoError(w.t, w.c.Get(context.Background(), client.ObjectKey{Namespace: "ml", Name: "train"}, u))
	}
	get()
	w.request.ResourceVersion = u.GetResourceVersion()
	r.Requests = []observe.Request{w.request}
	require.NoError(w.t, w.p.provisioning(context.Background(), r))
	get()
	var from struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	require.NoError(w.t, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &from))
	w.request.Request.Conditions = from.Status.Conditions
	var out []string
	for _, c := range from.Status.Conditions {
		out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(out, ", ")
}

func (w *requested) want(after time.Duration, want string) {
	w.t.Helper()
	if got := w.reconcile(after); got != want {
		w.t.Errorf("%q, want %q", got, want)
	}
}

// TestAtomicRequest: a request is accepted, tried until nodes are requested for all of its pods, booked for ten
// minutes, and then over.
func TestAtomicRequest(t *testing.T) {
	const accepted = "Accepted=True Accepted, "
	w := newRequested(t, foreign.AtomicScaleUp)
	w.want(0, accepted+"Provisioned=False CapacityIsNotFound")
	if c := meta.FindStatusCondition(w.request.Request.Conditions, "Provisioned"); !strings.Contains(c.Message, string(plan.NoPoolFits)) {
		t.Errorf("message %q: it gives no reason", c.Message)
	}
	w.reason, w.failed = plan.WaitUpcomingNode, true
	w.want(time.Second, accepted+"Provisioned=False CapacityIsNotFound")
	w.failed = false
	w.want(time.Second, accepted+"Provisioned=True CapacityIsProvisioned")
	w.reason = plan.PoolAtMax // what the request was given is kept
	w.want(bookingLasts, accepted+"Provisioned=True CapacityIsProvisioned")
	w.want(time.Second, accepted+"Provisioned=True CapacityIsProvisioned, BookingExpired=True CapacityReservationTimeExpired")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.reason = plan.WaitScheduler
	w.want(0, accepted+"Provisioned=True CapacityIsFound")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.request.Request.ValidFor = time.Hour
	w.want(0, accepted+"Provisioned=False CapacityIsNotFound")
	w.want(time.Hour+time.Second, accepted+"Provisioned=False CapacityIsNotFound, Failed=True Expired")
	w.reason = plan.WaitScheduler
	w.want(time.Second, accepted+"Provisioned=False CapacityIsNotFound, Failed=True Expired")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.request.Request.Missing = "template"
	w.want(0, accepted+"Provisioned=False FailedToCreatePods")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.reason = "" // none of the request's pods requests a GPU
	w.want(0, "Failed=True CapacityIsNotFound")

	w = newRequested(t, foreign.AtomicScaleUp)
	w.reason, w.request.ByKueue = "", true // the pods of a Workload are not known yet
	w.want(0, "Accepted=True Accepted")
}

// TestRefusedRequests: requests whose conditions cannot be written keep no other from its own.
func TestRefusedRequests(t *testing.T) {
	w := newRequested(t, foreign.AtomicScaleUp)
	r := Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{Now: w.now}}}
	for i := range maxRequests {
		o := *w.request.Object // of an old resourceVersion
		o.Name, o.ResourceVersion = fmt.Sprintf("bad-%d", i), "7"
		r.Requests = append(r.Requests, observe.Request{Object: &o})
	}
	w.p.client = interceptor.NewClient(w.c.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if o.GetName() != "train" {
			return errors.New("refused")
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}})
	if err := w.p.provisioning(t.Context(), r); err == nil || !strings.Contains(err.Error(), "ml/bad-0: refused") {
		t.Errorf("err = %v", err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(provReq)
	for range 2 {
		require.NoError(t, w.c.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "train"}, u))
		w.request.ResourceVersion = u.GetResourceVersion()
		r.Requests, r.Now = append(r.Requests[:maxRequests:maxRequests], w.request), r.Now.Add(time.Second)
		_ = w.p.provisioning(t.Context(), r) // the others' writes are still refused
	}
	if conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions"); len(conditions) == 0 {
		t.Error("the last request has no conditions")
	}
}

// TestCheckedTogether: capacity that one check has found is not found by another in the same reconcile.
func TestCheckedTogether(t *testing.T) {
	w := newRequested(t, foreign.CheckCapacity)
	r := Reconcile{Observation: observe.Observation{Snapshot: plan.Snapshot{Now: w.now}}}
	for _, name := range []string{"first", "second"} {
		o := *w.request.Object
		o.Name = name
		r.Requests = append(r.Requests, observe.Request{Object: &o, Check: []plan.Pod{{Namespace: "ml", Name: name + "~0"}}})
	}
	r.Plans = func(s plan.Snapshot) (out plan.Plan, _ error) { // one fits
		for i := range s.Pods {
			reason := plan.WaitScheduler
			if i > 0 {
				reason = plan.NoPoolFits
			}
			out.Verdicts = append(out.Verdicts, plan.Verdict{Kind: plan.KindPod, Subject: s.Pods[i].Key(), Reason: reason})
		}
		return out, nil
	}
	var found []string
	w.p.client = interceptor.NewClient(w.c.(client.WithWatch), interceptor.Funcs{SubResourcePatch: func(_ context.Context, _ client.Client, _ string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
		if body, err := p.Data(o); err == nil && strings.Contains(string(body), "CapacityIsFound") {
			found = append(found, o.GetName())
		}
		return nil
	}})
	require.NoError(t, w.p.provisioning(t.Context(), r))
	if !slices.Equal(found, []string{"first"}) {
		t.Errorf("%v found room for one", found)
	}
}

// TestCheckedRequest: a check finds free capacity, adds nothing, and is repeated every ten seconds, or not at all.
func TestCheckedRequest(t *testing.T) {
	const accepted = "Accepted=True Accepted, "
	w := newRequested(t, foreign.CheckCapacity)
	w.request.Check = []plan.Pod{{Namespace: "ml", Name: "train-0~0"}, {Namespace: "ml", Name: "train-0~1"}}
	w.reason = plan.WaitUpcomingNode
	w.want(0, accepted+"Provisioned=False CapacityIsNotFound")
	w.reason = plan.WaitScheduler
	w.want(time.Second, accepted+"Provisioned=False CapacityIsNotFound")
	w.want(checkEvery, accepted+"Provisioned=True CapacityIsFound")

	w = newRequested(t, foreign.CheckCapacity)
	w.request.Check, w.request.Request.NoRetry = []plan.Pod{{Namespace: "ml", Name: "train-0~0"}}, true
	w.want(0, accepted+"Failed=True CapacityIsNotFound")
}
