package observe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/forecast"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// reporting is a PoolReader with a fixed Listing.
type reporting struct {
	pools.Providers
	listing pools.Listing
	learned pools.Learned
	nodes   *int // of which it learned
}

func (s reporting) List(context.Context, *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return s.listing, nil
}

func (s reporting) Learn(_ *v1alpha1.GPUNodePool, _ int, nodes []*corev1.Node) pools.Learned {
	if s.nodes != nil {
		*s.nodes = len(nodes)
	}
	return s.learned
}

func TestListing(t *testing.T) {
	p := pool("p")
	p.Spec.PricePerHour, p.Spec.ScaleDown.IdleAfter = nil, nil
	w := newWorld(t, p)
	for name, id := range map[string]string{"p-1": "aws:///eu-west-1a/i-1", "p-2": "aws:///eu-west-1a/i-2", "p-3": "aws:///eu-west-1a/i-3", "p-4": ""} {
		n := node(name, halves(2))
		n.Spec.ProviderID = id
		require.NoError(t, w.client.Create(t.Context(), n))
	}
	for _, got := range w.at(0).Nodes {
		if got.Cordoned || got.NoScaleDown {
			t.Fatalf("%+v", got)
		}
	}
	until := start.Add(time.Hour)
	w.o.o.Pools = reporting{
		Providers: w.o.o.Pools.(pools.Providers),
		listing: pools.Listing{Target: 4, Unnamed: true, SpotPrice: ptr.To(24.5), Notices: []pools.Notice{
			{Instance: "i-1", At: start, Ends: until}, {Instance: "i-2", At: start}, {Instance: "", At: start, Ends: until},
		}},
		learned: pools.Learned{ReadyAfter: 7 * time.Minute, Failures: 2, BackoffUntil: until},
	}
	seen := w.at(time.Second)
	if got := seen.Pools[0]; got.IdleAfter != plan.DefaultIdleAfter || !got.IdleAdapts {
		t.Errorf("a pool that states no idleAfter has %s, adapts: %t", got.IdleAfter, got.IdleAdapts)
	}
	if got := seen.Pools[0]; got.PricePerHour != 24.5 || got.ReadyAfter != 7*time.Minute || !got.BackoffUntil.Equal(until) {
		t.Errorf("price %g, ready after %s, backoff until %s", got.PricePerHour, got.ReadyAfter, got.BackoffUntil)
	}
	// An interruption has a time; a recommendation has none, but cordons the node; a notice without an instance matches
	// no node.
	leaves := map[string]time.Time{"p-1": until}
	for _, got := range seen.Nodes {
		if cordoned := got.Name == "p-1" || got.Name == "p-2"; got.Cordoned != cordoned || got.CordonedBy != "" || !got.NoScaleDown || !got.LeavesAt.Equal(leaves[got.Name]) {
			t.Errorf("of a pool that is not scaled down: %+v", got)
		}
	}
	fixed, learned := w.o.o.Pools.(reporting), 0
	fixed.listing, fixed.nodes = pools.Listing{Target: 3, Going: []string{"i-1"}}, &learned
	w.o.o.Pools = fixed
	going := w.at(2 * time.Second)
	if learned != 3 { // with the fourth, a request for one more would look met
		t.Errorf("learned of %d nodes", learned)
	}
	if n, p := going.Nodes[0], going.Pools[0]; n.Pool != "" || !n.Cordoned || p.Size != 3 {
		t.Errorf("a removed node is of pool %q, whose size is %d; cordoned %v", n.Pool, p.Size, n.Cordoned)
	}
	if got := seen.Learned["p"].Failures; got != 2 {
		t.Errorf("%d failures", got)
	}
}

// TestNodeOfNoCountedMachine: a node whose instance is in its group's warm pool has joined and is stopped. The group's
// size does not count it, so the pool does not either; otherwise a scale-up would request as many nodes more. A node
// whose instance was started after the listing counts.
func TestNodeOfNoCountedMachine(t *testing.T) {
	p := pool("p")
	p.Spec.MIG, p.Spec.Min = nil, 0
	w := newWorld(t, p)
	for name, age := range map[string]time.Duration{"p-1": time.Hour, "warm-1": time.Hour, "warm-2": time.Hour, "late": 0} {
		n := node(name, corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")})
		n.Spec.ProviderID, n.CreationTimestamp = "aws:///eu-west-1a/i-"+name, metav1.NewTime(start.Add(-age))
		if age > 0 && name != "p-1" {
			n.Status.Conditions = nil
		}
		require.NoError(t, w.client.Create(t.Context(), n))
	}
	w.o.o.Pools = listed{"p": {Listing: pools.Listing{Target: 2, Counted: []string{"i-p-1"}}}}
	seen := w.at(0)
	if got := seen.Pools[0]; got.Size != 2 {
		t.Errorf("the pool has %d nodes", got.Size)
	}
	for _, n := range seen.Nodes {
		if warm := strings.HasPrefix(n.Name, "warm"); warm != (n.Pool == "") {
			t.Errorf("node %s is of pool %q", n.Name, n.Pool)
		}
	}
}

// TestKarpenterTerminates: Karpenter replaces a node that expires, is interrupted, or whose NodeClaim is deleted, as
// soon as it terminates, which takes as long as its pods do. Karpenter's replicas do not count it, so its pods wait for
// the replacement.
func TestKarpenterTerminates(t *testing.T) {
	p := pool("p")
	p.Spec.MIG, p.Spec.Min = nil, 0
	p.Spec.Provider = v1alpha1.Provider{Scale: &v1alpha1.ScaleProvider{APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "h100"}}
	whole := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
	n := node("p-1", whole)
	n.Labels["karpenter.sh/nodepool"], n.Finalizers = "h100", []string{"karpenter.sh/termination"}
	w := newWorld(t, p, n, stuckPod("x", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}))
	w.o.o.Pools = listed{"p": {Listing: pools.Listing{Target: 1}}}
	require.NoError(t, w.client.Delete(t.Context(), n))
	if seen := w.at(0); seen.Pools[0].Size != 0 || strings.Contains(planned(seen.Snapshot, []string{"pod"}), "scale-up") {
		t.Errorf("the pool has %d nodes; planned %s", seen.Pools[0].Size, planned(seen.Snapshot, []string{"pod"}))
	}
}

// TestStartupTaintsOfTheProvider: a node with one of these taints is upcoming, and no further node is added for its
// pods.
func TestStartupTaintsOfTheProvider(t *testing.T) {
	p, n := pool("p"), node("p-1", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")})
	p.Spec.MIG, p.Spec.Min = nil, 0
	n.Spec.Taints = []corev1.Taint{{Key: "network", Value: "starting", Effect: corev1.TaintEffectNoExecute}}
	w := newWorld(t, p, n)
	w.o.o.Pools = listed{"p": {Listing: pools.Listing{Target: 1, StartupTaints: []v1alpha1.Taint{{Key: "network", Value: "starting", Effect: "NoExecute"}}}}}
	if got := w.at(0).Nodes[0]; got.Ready || len(got.Taints) != 0 {
		t.Errorf("ready %v, taints %v", got.Ready, got.Taints)
	}
}

// together is a provider whose calls return only once all of them have been made.
type together struct {
	pools.Providers
	missing atomic.Int32
	all     chan struct{}
}

func (p *together) List(ctx context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	if p.missing.Add(-1) == 0 {
		close(p.all)
	}
	select {
	case <-p.all:
		return p.Providers.List(ctx, pool)
	case <-time.After(5 * time.Minute):
		return pools.Listing{}, errors.New("no other call was made")
	}
}

// TestProvidersAreListedConcurrently: a reconcile waits for the slowest provider, not for one after
// another.
func TestProvidersAreListedConcurrently(t *testing.T) {
	w := newWorld(t, pool("a"), pool("b"), pool("c"))
	slow := &together{Providers: w.o.o.Pools.(pools.Providers), all: make(chan struct{})}
	slow.missing.Store(3)
	w.o.o.Pools = slow
	if seen := w.at(0); len(seen.Pools) != 3 {
		t.Errorf("%d pools, want 3: %v", len(seen.Pools), seen.Invalid)
	}
}

func TestPoolsOverTheSameTarget(t *testing.T) {
	a, b, c := pool("a"), pool("b"), pool("p")
	for _, p := range []*v1alpha1.GPUNodePool{a, b} {
		p.Spec.Provider = v1alpha1.Provider{ASG: &v1alpha1.ASGProvider{Name: "g", Region: "eu-west-1"}}
	}
	w := newWorld(t, a, b, c, node("p-1", halves(2)))
	w.o.o.Pools = reporting{Providers: pools.Providers{GRPC: nodegroups.New(w.client, w.client), ASG: pools.NewASG(pools.ASGOptions{})}, listing: pools.Listing{Target: 1}}
	seen := w.at(0)
	if pools.ReasonOf(seen.Invalid["b"]) != pools.ReasonShared || seen.Invalid["a"] != nil || seen.Invalid["p"] != nil {
		t.Errorf("%v", seen.Invalid)
	}
	if len(seen.Pools) != 2 {
		t.Errorf("%d valid pools, want 2", len(seen.Pools))
	}
}

// TestTrimVolume: the source of a volume, which may have the name of a secret, is not kept.
func TestTrimVolume(t *testing.T) {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Annotations: map[string]string{"notes": "x"}}}
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{}
	pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h", NodePublishSecretRef: &corev1.SecretReference{Name: "s"}}
	_, err := TrimVolume(pv)
	require.NoError(t, err)
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != "d" || pv.Spec.CSI.VolumeHandle != "" || pv.Spec.CSI.NodePublishSecretRef != nil || pv.Annotations != nil || pv.Spec.NodeAffinity == nil {
		t.Errorf("kept %+v", pv)
	}
}

// neighbour adds an object of another API to the world.
func (w *world) neighbour(k foreign.Kind, text string) {
	w.t.Helper()
	var u unstructured.Unstructured
	require.NoError(w.t, yaml.Unmarshal([]byte(text), &u.Object))
	o := foreign.Parse(k, &u)
	if o.Err != nil {
		w.t.Fatal(o.Err)
	}
	had, _ := w.o.o.Foreign()
	if had == nil {
		had = foreign.Objects{}
	}
	had.Add(o)
	w.o.o.Foreign = func() (foreign.Objects, error) { return had, nil }
}

// TestNoObservationBeforeForeignObjects: nothing is decided until other APIs are listed, since members of a gang would
// look like single pods.
func TestNoObservationBeforeForeignObjects(t *testing.T) {
	w := newWorld(t, pool("p"))
	w.o.o.Foreign = func() (foreign.Objects, error) { return nil, foreign.ErrNotYet }
	if _, err := w.o.Observe(t.Context(), start); !errors.Is(err, foreign.ErrNotYet) {
		t.Errorf("err = %v", err)
	}
}

// past answers range queries.
type past func(promql string) ([]prom.Line, error)

func (p past) Range(_ context.Context, promql string, _, _ time.Time, _ time.Duration) ([]prom.Line, error) {
	return p(promql)
}

// TestForecasts: a series becomes replicas of its workload; what is unknown has a reason and is not
// zero.
func TestForecasts(t *testing.T) {
	steady := func(string) ([]prom.Line, error) {
		var l prom.Line
		for i := range 200 {
			l.Points = append(l.Points, prom.Point{Time: start.Add(time.Duration(i-200) * time.Minute), Value: 40})
		}
		return []prom.Line{l}, nil
	}
	for name, c := range map[string]struct {
		past   past
		after  time.Duration
		unsure string
	}{
		"steady":  {past: steady},
		"away":    {past: func(string) ([]prom.Line, error) { return nil, prom.ErrUnavailable }, unsure: "Prometheus does not answer: "},
		"nothing": {past: func(string) ([]prom.Line, error) { return nil, nil }, unsure: "the query has no series"},
		"two":     {past: func(string) ([]prom.Line, error) { return make([]prom.Line, 2), nil }, unsure: "put sum() around it"},
		"overdue": {past: steady, after: time.Hour, unsure: "overdue"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p"))
			w.neighbour(foreign.Deployment, `
metadata: {namespace: chat, name: vllm}
spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/mig-3g.40gb: 1}}}]}}}`)
			o := NewOutlooks(c.past, []Series{{
				Namespace: "chat", Kind: "Deployment", Name: "vllm", Query: "q", PerReplica: 4, Horizon: lasting(10 * time.Minute), History: lasting(4 * time.Hour), Step: lasting(time.Minute),
			}}, time.Minute, nil)
			o.Once(t.Context(), start)
			w.o.o.Outlooks = o.Latest
			out := w.at(c.after)
			if len(out.Forecasts) != 1 {
				t.Fatalf("forecasts %+v", out.Forecasts)
			}
			f := out.Forecasts[0]
			if c.unsure != "" {
				if !strings.Contains(f.Unsure, c.unsure) {
					t.Errorf("unsure %q, want %q", f.Unsure, c.unsure)
				}
				return
			}
			if f.Unsure != "" || f.Name != "chat/vllm" || f.Expected < 9.9 || f.Expected > 10.1 || f.Error > 0.01 || f.Have != 0 || fmt.Sprint(f.Like.Demand) != "3g.40gb" {
				t.Errorf("%+v", f)
			}
		})
	}
}

func lasting(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// TestForecastOfAHoliday: a forecast for a holiday follows the weekend before, and the log has that once.
func TestForecastOfAHoliday(t *testing.T) {
	now := time.Date(2026, 12, 25, 6, 0, 0, 0, time.UTC)
	week := past(func(string) ([]prom.Line, error) {
		var l prom.Line
		for at := now.AddDate(0, 0, -7); !at.After(now); at = at.Add(5 * time.Minute) {
			x := 2.0
			if d := at.Weekday(); at.Hour() >= 7 && at.Hour() < 19 && d != time.Saturday && d != time.Sunday {
				x = 10
			}
			l.Points = append(l.Points, prom.Point{Time: at, Value: x})
		}
		return []prom.Line{l}, nil
	})
	var log bytes.Buffer
	o := NewOutlooks(week, []Series{{
		Namespace: "chat", Kind: "Deployment", Name: "vllm", Query: "q", PerReplica: 1, Horizon: lasting(2 * time.Hour), History: lasting(7 * 24 * time.Hour), Step: lasting(5 * time.Minute),
		Holidays: forecast.NewHolidays([]time.Weekday{time.Saturday, time.Sunday}, []time.Time{now}),
	}}, time.Minute, slog.New(slog.NewTextHandler(&log, nil)))
	o.Once(t.Context(), now)
	o.Once(t.Context(), now)
	var f plan.Forecast
	if unsure := o.Latest()[0].replicas(&f, now); unsure != "" || f.Expected < 1.9 || f.Expected > 2.1 {
		t.Errorf("%v replicas, unsure %q: want the weekend's 2", f.Expected, unsure)
	}
	if n := strings.Count(log.String(), `msg="forecast for a holiday" workload=Deployment/chat/vllm why="2026-12-25 is a holiday`); n != 1 {
		t.Errorf("the log says it %d times, want once:\n%s", n, &log)
	}
}

// listed is the provider's answer about each pool.
type listed map[string]struct {
	pools.Listing
	err error
}

func (a listed) List(_ context.Context, pool *v1alpha1.GPUNodePool) (pools.Listing, error) {
	return a[pool.Name].Listing, a[pool.Name].err
}

func (a listed) Learn(*v1alpha1.GPUNodePool, int, []*corev1.Node) pools.Learned {
	return pools.Learned{}
}

// TestProviderDoesNotAnswer: for a while the pool stays as it was, so that no other pool is scaled up for pods that
// wait for its nodes. Nothing more is requested of it.
func TestProviderDoesNotAnswer(t *testing.T) {
	a, b := pool("a"), pool("b")
	a.Spec.MIG, b.Spec.MIG, a.Spec.Min, b.Spec.Min = nil, nil, 0, 0
	b.Spec.PricePerHour = ptr.To(resource.MustParse("5"))
	w := newWorld(t, a, b, stuckPod("x", corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}))
	answers := listed{"a": {Listing: pools.Listing{Target: 1}}, "b": {}}
	w.o.o.Pools = answers
	want := func(after time.Duration, err error, another bool) {
		t.Helper()
		one := answers["a"]
		one.err = err
		answers["a"] = one
		if got := planned(w.at(after).Snapshot, []string{"pod"}); strings.Contains(got, "scale-up") != another {
			t.Errorf("after %s: %swant another node: %v", after, got, another)
		}
	}
	busy := apierrors.NewTooManyRequests("busy", 1)
	want(0, nil, false)
	want(time.Second, busy, false)
	want(4*time.Minute, busy, false)
	want(6*time.Minute, busy, true)
	want(7*time.Minute, nil, false)
	want(8*time.Minute, &pools.Problem{Reason: pools.ReasonTarget, Field: "spec.provider.scale"}, true)
}
