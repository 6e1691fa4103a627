package crashstory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
)

// fault is what happens to a write of the autoscaler.
type fault string

const (
	none     fault = ""
	before   fault = "before" // killed before the API server receives it
	after    fault = "after"  // killed after it was done, before the answer
	lost     fault = "lost"   // done, but answered with an error
	conflict fault = "409"    // not done
	limited  fault = "429"    // not done
)

var all = []fault{before, after, lost, conflict, limited}

var errKilled = errors.New("killed")

// tick is the time between two reconciles.
const tick = 5 * time.Second

// hardware describes the nodes of each pool.
var hardware = map[string]struct {
	product string
	gpus    int
	layout  story.Layout
}{
	"mig":   {"NVIDIA-H100-80GB-HBM3", 1, story.Layout{{"1g.10gb": 7}}},
	"whole": {"NVIDIA-L40S", 2, nil},
}

var kinds = scheme.New()

// world is a cluster with its scheduler, its machines and an autoscaler, on one clock.
type world struct {
	t        *testing.T
	client   client.WithWatch // for everything except the autoscaler
	now      time.Time
	loop     *loop.Loop
	machines map[types.UID]*node.Agent
	readings *observe.Readings
	gang     bool // whether the gang's PodGroup exists

	calls  []string // the autoscaler's writes, in order
	fault  func(nth int, call string) fault
	killed bool // then no call is answered until the next start
	err    error
	done   map[string]int // how often each action was really done
}

func newWorld(t *testing.T, f func(nth int, call string) fault) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 16, 9, 0, 0, 0, time.UTC), machines: map[types.UID]*node.Agent{}, fault: f, done: map[string]int{}}
	w.client = kubefake.New(kinds).WithStatusSubresource(&v1alpha1.GPUNodePool{}, &v1alpha1.GPUQuota{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	text, err := os.ReadFile("testdata/pools.yaml")
	require.NoError(t, err)
	objects, err := neighbours.Parse(text)
	require.NoError(t, err)
	for _, o := range objects {
		w.create(o)
	}
	w.start()
	return w
}

// over returns a client of the autoscaler, whose writes can get the given faults. The provider's client gets
// only kills: a failed request would put its pool into backoff, which autoscaler/loop tests.
func (w *world) over(faults ...fault) client.WithWatch {
	return interceptor.NewClient(w.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if w.killed {
				return errKilled
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if w.killed {
				return errKilled
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write(faults, "create", o, func() error {
				w.born(o)
				return c.Create(ctx, o, opts...)
			})
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.write(faults, "update", o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.write(faults, "patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write(faults, "delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceCreate: func(ctx context.Context, c client.Client, sub string, o, body client.Object, opts ...client.SubResourceCreateOption) error {
			return w.write(faults, "create "+sub+" of", o, func() error { return c.SubResource(sub).Create(ctx, o, body, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return w.write(faults, "update "+sub+" of", o, func() error { return c.SubResource(sub).Update(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return w.write(faults, "patch "+sub+" of", o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// write does a write, or applies the current fault if it is one of these.
func (w *world) write(faults []fault, verb string, o client.Object, do func() error) error {
	if w.killed {
		return errKilled
	}
	call := fmt.Sprintf("%s %s %s", verb, reflect.TypeOf(o).Elem().Name(), o.GetName())
	w.calls = append(w.calls, call)
	what := w.fault(len(w.calls), call)
	if !slices.Contains(faults, what) {
		what = none
	}
	switch what {
	case before:
		w.killed = true
		return errKilled
	case conflict:
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), errors.New("injected"))
	case limited:
		return apierrors.NewTooManyRequests("injected", 1)
	}
	if err := do(); err != nil {
		return err
	}
	if _, isNode := o.(*corev1.Node); isNode && verb != "patch" || verb == "create eviction of" {
		w.done[call]++
	}
	switch what {
	case after:
		w.killed = true
		return errKilled
	case lost:
		return errors.New("the connection was closed")
	}
	return nil
}

// start starts a new autoscaler process. Everything that it knows is in the API server.
func (w *world) start() {
	w.killed = false
	clock := func() time.Time { return w.now }
	log := slog.New(slog.DiscardHandler)
	ours, theirs := w.over(all...), w.over(before, after)
	maker := nodegroups.New(theirs, theirs)
	maker.ExternalBoot = true
	providers := pools.Providers{GRPC: maker, History: pools.NewHistory(clock)}
	policy := plan.DefaultPolicy()
	policy.ReclaimBorrowed = true
	for _, d := range []*time.Duration{&policy.ScaleDownCooldown, &policy.RemovalInterval, &policy.RepartitionCooldown, &policy.DrainCooldown} {
		*d = time.Second
	}
	w.loop = loop.New(loop.Options{
		Observer: observe.New(observe.Options{
			Cluster: ours, Readings: func() *observe.Readings { return w.readings }, Pools: providers, ConfigMap: partition.DefaultConfigMap, Foreign: w.groups, Log: log,
		}),
		Actor: act.New(act.Options{
			Client: ours, Live: ours, Pools: providers, Partition: partition.NewManager(ours, ours, partition.DefaultConfigMap), Policy: policy, Nominate: true, Log: log,
		}),
		Store: loop.NewStatusStore(ours, ours, nil), Publisher: loop.NewClusterPublisher(ours, &record.FakeRecorder{}, log),
		Policy: policy, Now: clock, Log: log,
	})
}

// groups returns the gang's PodGroup, in the form of scheduler-plugins.
func (w *world) groups() (foreign.Objects, error) {
	out := foreign.Objects{}
	if w.gang {
		out.Add(&foreign.Object{ObjectMeta: metav1.ObjectMeta{Namespace: lender, Name: gangName}, Kind: foreign.PluginsPodGroup, Group: &foreign.PodGroup{Min: 2}})
	}
	return out, nil
}

// turn is one tick: machines, scheduler, Prometheus and one reconcile. If the process was killed, it is
// started again.
func (w *world) turn() {
	w.t.Helper()
	w.now = w.now.Add(tick)
	w.stepMachines()
	w.schedule()
	var err error
	w.readings, err = observe.Read(w.t.Context(), w, nil, w.now)
	require.NoError(w.t, err)
	if w.err = w.loop.Once(w.t.Context()); w.killed {
		w.start()
	}
}

// born sets what the API server sets on new objects.
func (w *world) born(o client.Object) {
	o.SetUID(types.UID(fmt.Sprintf("%s-%d", o.GetName(), w.now.UnixNano()+int64(len(w.calls)))))
	o.SetCreationTimestamp(metav1.NewTime(w.now))
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	w.born(o)
	require.NoError(w.t, w.client.Create(w.t.Context(), o))
}

// stepMachines runs one step of the host software of all nodes: device manager, device plugin, feature
// discovery and mig-manager.
func (w *world) stepMachines() {
	w.t.Helper()
	var config corev1.ConfigMap
	require.NoError(w.t, client.IgnoreNotFound(w.client.Get(w.t.Context(), partition.DefaultConfigMap, &config)))
	pods := w.pods()
	here := map[types.UID]bool{}
	for _, n := range w.nodes() {
		here[n.UID] = true
		a := w.machines[n.UID]
		if a == nil {
			a = w.boot(&n)
		}
		var bound []*corev1.Pod
		for i := range pods {
			if pods[i].Spec.NodeName == n.Name {
				bound = append(bound, &pods[i])
			}
		}
		was := a.Machine.GPUs()
		require.NoError(w.t, a.Step(w.t.Context(), &n, bound, []byte(config.Data[partition.ConfigKey]), w.now))
		if !reflect.DeepEqual(was, a.Machine.GPUs()) {
			w.done["repartition "+n.Name]++
		}
	}
	maps.DeleteFunc(w.machines, func(uid types.UID, _ *node.Agent) bool { return !here[uid] })
}

// boot starts a node's machine; its kubelet reports Ready.
func (w *world) boot(n *corev1.Node) *node.Agent {
	w.t.Helper()
	hw := hardware[n.Labels[v1alpha1.NodePoolLabel]]
	layouts, err := story.Place(hw.product, hw.gpus, hw.layout)
	require.NoError(w.t, err)
	m, err := node.New(node.Spec{Name: n.Name, Product: hw.product, GPUs: hw.gpus, Layouts: layouts}, w.now)
	require.NoError(w.t, err)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.now)}}
	require.NoError(w.t, w.client.Status().Update(w.t.Context(), n))
	a := node.NewAgent(m, w.client, slog.New(slog.DiscardHandler))
	w.machines[n.UID] = a
	return a
}

// schedule binds each pod to the first node with what it requests, and a gang all at once.
func (w *world) schedule() {
	w.t.Helper()
	pods := w.pods()
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName != "" || p.Labels[gangLabel] != "" && len(w.nodes()) < 3 {
			continue
		}
		for _, n := range w.nodes() {
			if n.Spec.Unschedulable || !selects(p.Spec.NodeSelector, n.Labels) || !fits(p, &n, w.pods()) {
				continue
			}
			p.Spec.NodeName = n.Name
			require.NoError(w.t, w.client.Update(w.t.Context(), p))
			p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: w.now}}
			require.NoError(w.t, w.client.Status().Update(w.t.Context(), p))
			break
		}
	}
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// fits reports whether a node has enough unallocated devices for a pod.
func fits(p *corev1.Pod, n *corev1.Node, pods []corev1.Pod) bool {
	for name, want := range p.Spec.Containers[0].Resources.Limits {
		if !strings.HasPrefix(string(name), "nvidia.com/") {
			continue
		}
		left := n.Status.Allocatable[name].DeepCopy()
		for i := range pods {
			if pods[i].Spec.NodeName == n.Name {
				left.Sub(pods[i].Spec.Containers[0].Resources.Limits[name])
			}
		}
		if left.Cmp(want) < 0 {
			return false
		}
	}
	return true
}

// Query implements observe.Querier. It answers as a Prometheus would that scrapes the nodes' exporters.
func (w *world) Query(_ context.Context, query string, _ time.Time) (out prom.Vector, _ error) {
	machines := slices.SortedFunc(maps.Values(w.machines), func(a, b *node.Agent) int { return cmp.Compare(a.Machine.Name(), b.Machine.Name()) })
	for _, a := range machines {
		for _, s := range testenv.ExporterSeries(query, a.Machine) {
			out = append(out, prom.Sample{Labels: prom.FromMap(s.Labels), Value: s.Value, Time: w.now})
		}
	}
	return out, nil
}

func (w *world) nodes() []corev1.Node {
	w.t.Helper()
	var list corev1.NodeList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	return list.Items
}

func (w *world) pods() []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	return list.Items
}

// times matches timestamps, which differ between runs.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// state returns the final objects and the actions that were done, one fact a line. For times it only says
// whether they are set. It leaves out messages, the reason why a pool does not scale up, and the numbers of
// recently requested or removed nodes: these also count requests whose outcome was unknown.
func (w *world) state() []string {
	w.t.Helper()
	var out []string
	add := func(what string, v any) {
		text, err := json.Marshal(v)
		require.NoError(w.t, err)
		out = append(out, what+" "+times.ReplaceAllString(string(text), "T"))
	}
	for _, n := range w.nodes() {
		add("node "+n.Name, []any{n.Labels, n.Annotations, n.Spec.Unschedulable, n.Spec.Taints, n.Status.Allocatable})
	}
	for _, p := range w.pods() {
		add("pod "+p.Namespace+"/"+p.Name, []any{p.Status.Phase, p.Spec.NodeName})
	}
	var list v1alpha1.GPUNodePoolList
	require.NoError(w.t, w.client.List(w.t.Context(), &list))
	for _, p := range list.Items {
		s := p.Status
		s.PlannerState.Grown, s.PlannerState.Removed, s.PlannerState.Epoch = nil, nil, nil
		add("pool "+p.Name, []any{s.Size, s.Target, s.Ready, s.Upcoming, s.Operations, s.Backoff != nil, s.PlannerState})
		for _, c := range s.Conditions {
			if c.Type != "ScalingLimited" {
				add("pool "+p.Name+" "+c.Type, c.Status)
			}
		}
	}
	var config corev1.ConfigMap
	require.NoError(w.t, w.client.Get(w.t.Context(), partition.DefaultConfigMap, &config))
	parsed, err := partition.ParseConfig(config.Data[partition.ConfigKey])
	require.NoError(w.t, err)
	add("mig configs", slices.Sorted(maps.Keys(parsed.MIGConfigs)))
	add("done", w.done)
	return out
}
