package fit

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/sim"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

var (
	cases = flag.Int("cases", 0, "random clusters to compare; 0: 5000 in make test-all, 250 in make test")
	seed  = flag.Int64("seed", 1, "of the random clusters in make test")
)

// TestFitsWhereTheSchedulerSays: if the scheduler finds a node for a pod, the planner leaves the pod to it.
// Otherwise the pod gets a new node of a pool on whose nodes the scheduler would bind it.
func TestFitsWhereTheSchedulerSays(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs the control plane's binary: run without -short")
	}
	if *cases == 0 {
		*cases = 250
		if testall.Enabled() {
			*cases = 5000
		}
	}
	s := startScheduler(t)
	d := dice{rand.New(rand.NewPCG(uint64(testall.Seed(t, *seed)), 0))}
	outcomes, different := map[outcome]int{}, 0
	for i := range *cases {
		c := d.testCase()
		how, differences := s.compare(t, c)
		outcomes[how]++
		if len(differences) == 0 {
			continue
		}
		if different++; different > 3 {
			continue
		}
		c = s.smaller(t, c, differences[0].of)
		_, differences = s.compare(t, c)
		raw, _ := json.Marshal(c)
		t.Errorf("cluster %d: %v\n%s", i, differences, raw)
	}
	if different > 0 {
		t.Errorf("%d of %d clusters differ", different, *cases)
	}
	t.Logf("%d clusters: %v", *cases, outcomes)
	for _, how := range []outcome{fitsNow, fitsNew, fitsNever} {
		if outcomes[how] < *cases/50 {
			t.Errorf("in %d of %d clusters the pod fits %s: too few to mean anything", outcomes[how], *cases, how)
		}
	}
}

// outcome is the result for a pod.
type outcome string

const (
	fitsNow    outcome = "a node"
	fitsLater  outcome = "a node when pods have left"
	fitsNew    outcome = "a new node"
	fitsNever  outcome = "nowhere"
	thePlanner         = "the planner"
	theSim             = "the simulator"
)

// difference is how the planner or the simulator differs from the scheduler.
type difference struct{ of, text string }

func (d difference) String() string { return "\n" + d.of + ": " + d.text }

// scheduler is the process `controlplane fit`.
type scheduler struct {
	in  *json.Encoder
	out *json.Decoder
}

func startScheduler(t *testing.T) *scheduler {
	t.Helper()
	paths, err := build.ControlPlane(t.Context(), build.Options{})
	require.NoError(t, err)
	cmd := exec.Command(paths.Program("controlplane"), "fit")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &scheduler{json.NewEncoder(in), json.NewDecoder(out)}
}

// ask asks it about a cluster, with an additional node unless that is nil. Pods that have ended are not sent.
func (s *scheduler) ask(t *testing.T, c *testCase, more *core.Node) (a answer) {
	t.Helper()
	asked := *c
	asked.Pods = slices.DeleteFunc(slices.Clone(c.Pods), kube.IsOver)
	if more != nil {
		asked.Nodes = append(slices.Clip(c.Nodes), more)
		asked.CSINodes = append(slices.Clip(c.CSINodes), csiNode(more))
		if c.DeviceClasses != nil && !slices.Contains(c.Plugged, more.Labels[v1alpha1.NodePoolLabel]) {
			asked.ResourceSlices = append(slices.Clip(c.ResourceSlices), slicesOf(more, c.Dynamic)...)
			if slices.Contains(c.Adapters, more.Labels[v1alpha1.NodePoolLabel]) {
				asked.ResourceSlices = append(asked.ResourceSlices, adaptersOf(more))
			}
			withdraw(more)
		}
	}
	asked.ResourceClaims = asked.claimed()
	err := s.in.Encode(asked)
	if err == nil {
		err = s.out.Decode(&a)
	}
	if err != nil {
		t.Fatalf("asking the scheduler's filters (`controlplane fit`; what it says is above, nothing where it was killed): %v", err)
	}
	return a
}

// compare compares all three on a cluster.
func (s *scheduler) compare(t *testing.T, c *testCase) (outcome, []difference) {
	t.Helper()
	var all []difference
	differ := func(of, format string, args ...any) { all = append(all, difference{of, fmt.Sprintf(format, args...)}) }
	seen := snapshot(t, c)
	want := s.ask(t, c, nil)
	ready := slices.DeleteFunc(slices.Clone(want.Fits), func(name string) bool { return !kube.NodeReady(c.node(name)) })
	if got := simulated(seen); !slices.Equal(got, ready) && !divided(seen) && !c.released() {
		differ(theSim, "it fits %v, the scheduler's: %v, others %v", got, ready, want.Why)
	}
	verdict, added := planned(seen)
	outOfService := func(name string) bool { return !kube.NodeReady(c.node(name)) || c.node(name).Spec.Unschedulable }
	inService := slices.DeleteFunc(ready, outOfService)
	waits := verdict.Reason == plan.WaitScheduler || verdict.Reason == plan.WaitReclaim
	if waits == (len(inService) > 0) {
		if waits {
			return fitsNow, all
		}
		return s.compareNew(t, c, seen, verdict, added, all)
	}
	later := s.ask(t, c.left(), nil)
	if then := slices.DeleteFunc(later.Fits, outOfService); len(then) > 0 != waits {
		differ(thePlanner, "%v; it fits %v, and %v when pods have left, others %v", verdict, inService, then, later.Why)
	}
	return fitsLater, all
}

// compareNew is compare for a pod that fits on no node. added is the pool that gets a node for it; empty for
// none.
func (s *scheduler) compareNew(t *testing.T, c *testCase, seen plan.Snapshot, verdict plan.Verdict, added string, differences []difference) (outcome, []difference) {
	t.Helper()
	how, why := fitsNever, map[string]string{}
	left := c.left()
	for i := range seen.Pools {
		p := &seen.Pools[i]
		n := c.newNode(p)
		then := s.ask(t, left, n)
		fits := slices.Contains(then.Fits, n.Name)
		why[p.Name] = then.Why[n.Name]
		if fits {
			how = fitsNew
			delete(why, p.Name)
		}
		undivided := c.Dynamic && divided(seen) && !slices.ContainsFunc(p.Template.GPUs, func(g plan.GPU) bool { return g.ByClaim })
		if fits && added == "" && !undivided || !fits && p.Name == added && !assumed(p) && !c.untried(p) {
			differences = append(differences, difference{thePlanner, fmt.Sprintf("%v; a new node of %s is added: %v; it would fit one: %v %v", verdict, p.Name, p.Name == added, fits, why)})
		}
	}
	return how, differences
}

var kinds = scheme.New()

// snapshot returns what the autoscaler observes of a cluster.
func snapshot(t *testing.T, c *testCase) plan.Snapshot {
	t.Helper()
	objects := slices.Concat(listed(c.Nodes), listed(c.Pods), listed(c.Namespaces), listed(c.Pools), listed(c.Claims), listed(c.Volumes), listed(c.Classes), listed(c.CSINodes), listed(c.DeviceClasses), listed(c.claimed()), listed([]*core.Pod{c.Pod}))
	for _, o := range objects {
		for _, trim := range []func(any) (any, error){observe.TrimPods(), observe.TrimNode, observe.TrimVolume} { // as the autoscaler's caches do
			_, err := trim(o)
			require.NoError(t, err)
		}
	}
	api := kubefake.New(kinds).WithObjects(objects...).Build()
	o := observe.New(observe.Options{
		Cluster: api, Readings: func() *observe.Readings { return nil }, ConfigMap: partition.DefaultConfigMap,
		Pools:   pools.Providers{GRPC: nodegroups.New(api, api)},
		Foreign: func() (foreign.Objects, error) { return c.watched(t), nil },
	})
	out, err := o.Observe(t.Context(), now)
	require.NoError(t, err)
	require.NoError(t, out.Check())
	return out.Snapshot
}

// listed returns copies of the objects.
func listed[T client.Object](list []T) []client.Object {
	out := make([]client.Object, len(list))
	for i, o := range list {
		out[i] = o.DeepCopyObject().(client.Object)
	}
	return out
}

// planned returns the verdict on the pod, and the pool that gets a node for it.
func planned(s plan.Snapshot) (verdict plan.Verdict, added string) {
	policy := plan.DefaultPolicy()
	policy.MaxUnready = 1
	made := plan.Make(s, policy)
	for _, v := range made.Verdicts {
		if v.Kind == plan.KindPod && strings.HasSuffix(v.Subject, "/"+pending) {
			verdict = v
		}
	}
	for _, a := range made.Actions {
		if a.Verb == plan.ScaleUp && len(a.For) > 0 {
			added = a.Pool
		}
	}
	return verdict, added
}

// simulated returns the nodes to which the simulator could bind the pod.
func simulated(s plan.Snapshot) []string {
	w := sim.World{State: s}
	w.State = w.Snapshot()
	got := []string{}
	w.Score = func(p *plan.Pod, n *plan.Node, _, _ int64) int64 {
		if p.Name == pending {
			got = append(got, n.Name)
		}
		return 0
	}
	w.Schedule()
	slices.Sort(got)
	return got
}

// divided reports whether the pod requests MIG devices. If no exporter reports any, it is unknown which
// exist, and the simulator gives pods none.
func divided(s plan.Snapshot) bool {
	return slices.ContainsFunc(s.Pods, func(p plan.Pod) bool { return p.Name == pending && len(p.Demand.MIG) > 0 })
}

// assumed reports whether a pool's new nodes may have labels that the template does not state, such as a
// zone.
func assumed(p *plan.Pool) bool {
	return p.Template.Labels[zone] == "" || p.Template.Labels[rack] == ""
}

// released reports whether leaving pods have devices of which the pending pod requires more than their
// number. These count as free already, see doc.go.
func (c *testCase) released() bool {
	return c.More && slices.ContainsFunc(c.Pods, func(p *core.Pod) bool { return p.DeletionTimestamp != nil })
}

// untried reports whether only a new node can show how a pool's GPUs are offered and which devices are beside
// them.
func (c *testCase) untried(p *plan.Pool) bool {
	return (c.Mixed || c.More) && !slices.ContainsFunc(c.Nodes, func(n *core.Node) bool {
		return n.Labels[v1alpha1.NodePoolLabel] == p.Name && !n.Spec.Unschedulable && kube.NodeReady(n)
	})
}

// newNode makes a new node of a pool.
func (c *testCase) newNode(p *plan.Pool) *core.Node {
	t := p.Template
	n := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "new", Labels: map[string]string{host: "new", v1alpha1.NodePoolLabel: p.Name}}}
	maps.Copy(n.Labels, t.Labels)
	for _, taint := range t.Taints {
		n.Spec.Taints = append(n.Spec.Taints, core.Taint{Key: taint.Key, Value: taint.Value, Effect: core.TaintEffect(taint.Effect)})
	}
	n.Status.Allocatable = core.ResourceList{
		core.ResourceCPU: *resource.NewMilliQuantity(t.CPUMilli, resource.DecimalSI), core.ResourceMemory: *resource.NewQuantity(t.MemoryMi<<20, resource.BinarySI),
		core.ResourcePods: resource.MustParse("110"), core.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	of := c.Pools[slices.IndexFunc(c.Pools, func(of *v1alpha1.GPUNodePool) bool { return of.Name == p.Name })]
	n.Labels["nvidia.com/gpu.product"], n.Labels["nvidia.com/gpu.count"] = of.Spec.Template.Product, strconv.Itoa(len(t.GPUs))
	if layout := layoutOf(of); layout != nil || !slices.ContainsFunc(t.GPUs, func(g plan.GPU) bool { return g.MIG }) {
		maps.Copy(n.Status.Allocatable, offered(int64(len(t.GPUs)), layout))
	}
	for _, r := range t.Others { // includes places for volumes, see csiNode
		n.Status.Allocatable[core.ResourceName(r.Name)] = *resource.NewQuantity(r.Amount, resource.DecimalSI)
	}
	return n
}

// csiNode returns a new node's places for volumes, which the planner counts as a resource.
func csiNode(n *core.Node) *storage.CSINode {
	out := &storage.CSINode{ObjectMeta: meta.ObjectMeta{Name: n.Name}, Spec: storage.CSINodeSpec{Drivers: []storage.CSINodeDriver{{Name: driver, NodeID: n.Name}}}}
	if q, limited := n.Status.Allocatable["attachable-volumes-csi-"+driver]; limited {
		out.Spec.Drivers[0].Allocatable = &storage.VolumeNodeResources{Count: ptr.To(int32(q.Value()))}
	}
	return out
}
