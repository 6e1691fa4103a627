package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

// stranger is a product without a built-in table.
const stranger = "X900 4 8 131072 0 1g.32gb:0,2,4,6:2:4 2g.64gb:0,4:4:2 4g.128gb:0:8:1"

// stage is a real control plane with one node: the fake NVML library and the agent on the node, and
// the autoscaler's observer, planner and actor.
type stage struct {
	*bench
	kubernetes client.Client
	table      *mig.Table
	memory     plan.State
	products   fakenvml.State // what there is, for the plugin; never written to
}

// TestUnknownProduct: on the real API server and scheduler, a pod requests an instance of a product
// that only its own driver knows. The GPU is planned and repartitioned around the busy instance; an
// operation during which the autoscaler is killed is continued by the next one; one that the driver
// refuses is rolled back.
func TestUnknownProduct(t *testing.T) {
	s := newStage(t)
	s.tick() // the agent reports

	s.pod("wants", "1g.32gb", 2)
	s.until("the pod's need is planned", func() error {
		s.reconcile(s.actor(s.kubernetes))
		r, ok := s.record()
		if !ok || !r.Selected || r.UUID != fakenvml.GPUUUID(0) {
			return fmt.Errorf("record %+v", r)
		}
		if l := r.TargetLayout(); !slices.ContainsFunc(l, func(p mig.Placement) bool { return p.String() == "2g@0:4" }) {
			t.Fatalf("the target %s has no place for what is busy", l)
		}
		return nil
	})
	s.tick()
	s.released("2g.64gb@0 1g.32gb@4 1g.32gb@6")
	s.until("the pod runs there", func() error { return s.runs("wants") })

	// The autoscaler is killed between the record and the agent's signal.
	s.end("wants")
	s.pod("large", "2g.64gb", 1)
	killed := s.actor(dying{s.kubernetes})
	s.until("a record stands", func() error {
		s.reconcile(killed)
		if r, ok := s.record(); !ok || r.Selected {
			return fmt.Errorf("record %+v", r)
		}
		return nil
	})
	s.tick()
	if got := s.layout(); got != "2g.64gb@0 1g.32gb@4 1g.32gb@6" {
		t.Fatalf("repartitioned to %s before the signal to begin", got)
	}
	if err := s.actor(s.kubernetes).Resume(t.Context(), s.clock()); err != nil {
		t.Fatal(err)
	}
	s.tick()
	s.released("2g.64gb@0 2g.64gb@4")
	s.until("the pod runs there", func() error { return s.runs("large") })

	// The driver fails halfway.
	s.end("large")
	s.pod("small", "1g.32gb", 1)
	s.state = s.machine()
	s.state.Fails = []fakenvml.Fail{failOnce("create", 23)}
	s.set(s.state)
	s.until("a record stands", func() error {
		s.reconcile(s.actor(s.kubernetes))
		if r, ok := s.record(); !ok || !r.Selected {
			return fmt.Errorf("record %+v", r)
		}
		return nil
	})
	s.tick()
	a, err := partition.ParseAnswer(s.realNode().Annotations[partition.AgentAnnotation])
	if err != nil || a.State != partition.AgentRestored || !a.Touched || !strings.Contains(a.Message, "no free slices") {
		t.Fatalf("answer %+v", a)
	}
	s.released("2g.64gb@0 2g.64gb@4")
	if busy := s.machine().GPUs[0].Instances[0]; !slices.Equal(busy.Computes, fakenvml.Whole(fakenvml.MIGUUID(0, 0))) || busy.PID == 0 {
		t.Errorf("the busy instance is now %+v", busy)
	}
}

func newStage(t *testing.T) *stage {
	t.Helper()
	testall.Only(t, "agent, observer, planner and actor together on a real API server and scheduler; each of them is tested by itself")
	spec, err := mig.ParseSpec(stranger)
	if err != nil {
		t.Fatal(err)
	}
	table, err := mig.NewTable(spec)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := mig.ParseSlices("2g@0:4 2g@4:4")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, fakenvml.GPU{UUID: fakenvml.GPUUUID(0), Name: "NVIDIA X900", MemoryMiB: spec.MemoryMiB, MIG: true, Spec: spec, Instances: []fakenvml.Instance{
		{ID: 1, Placement: layout[0], Computes: fakenvml.Whole(fakenvml.MIGUUID(0, 0)), PID: 1000}, {ID: 2, Placement: layout[1], Computes: fakenvml.Whole(fakenvml.MIGUUID(0, 1))},
	}})
	binaries, err := build.All(t.Context(), build.Options{Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := cluster.Start(t.Context(), cluster.Options{Binaries: binaries, Parent: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	s := &stage{bench: b, table: table, products: b.state}
	if s.kubernetes, err = client.New(c.RESTConfig(), client.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	if b.client, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	b.now = time.Now().Add(time.Hour) // the node has been there for a while
	s.furnish()
	ctx, stop := context.WithCancel(context.Background())
	played := make(chan struct{})
	go func() { defer close(played); s.playPlugin(ctx) }()
	t.Cleanup(func() { stop(); <-played })
	s.until("the device plugin has advertised", func() error {
		if len(partition.Advertised(s.realNode())) == 0 {
			return errors.New("nothing is on offer")
		}
		return nil
	})
	return s
}

// furnish creates the namespaces, the pool, the node and the busy pod on it.
func (s *stage) furnish() {
	s.t.Helper()
	files, _ := filepath.Glob("../../../deploy/chart/gpuscale/files/crds/*.yaml")
	if len(files) == 0 {
		s.t.Fatal("no CRDs")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			s.t.Fatal(err)
		}
		s.create(o)
	}
	for _, name := range []string{"gpu-operator", "team"} {
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		v1alpha1.NodePoolLabel: "p", "nvidia.com/gpu.present": "true", "nvidia.com/gpu.product": "NVIDIA-X900", "nvidia.com/gpu.count": "1", "nvidia.com/mig.strategy": "mixed",
	}}}
	s.create(node)
	node.Status.NodeInfo.BootID = "boot-1"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110")}
	node.Status.Allocatable = node.Status.Capacity
	if err := s.kubernetes.Status().Update(s.t.Context(), node); err != nil {
		s.t.Fatal(err)
	}
	pool := &v1alpha1.GPUNodePool{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.GPUNodePoolSpec{
		Min: 1, Max: 1, Provider: nodegroups.Of("p"),
		Template: v1alpha1.NodeTemplate{Product: "NVIDIA-X900", GPUs: 1, CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi")},
		MIG:      &v1alpha1.MIG{Actuator: partition.ActuatorAgent, IdleAfter: &metav1.Duration{}, BootLayout: []map[string]int32{{"2g.64gb": 2}}, AllowedProfiles: []string{"1g.32gb", "2g.64gb"}},
	}}
	s.until("the API server knows pools", func() error {
		return client.IgnoreAlreadyExists(s.kubernetes.Create(s.t.Context(), pool.DeepCopy()))
	})
	s.pod("busy", "2g.64gb", 1, func(p *corev1.Pod) { p.Spec.NodeName = "n" })
	s.kubelet.give(fakenvml.MIGUUID(0, 0), "busy")
}

func (s *stage) create(o client.Object) {
	s.t.Helper()
	if err := s.kubernetes.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
}

// pod creates a pod that requests instances.
func (s *stage) pod(name, profile string, n int64, change ...func(*corev1.Pod)) {
	s.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		Containers: []corev1.Container{{Name: "c", Image: "c", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceName(mig.ResourceName(profile)): *resource.NewQuantity(n, resource.DecimalSI)}}}},
	}}
	for _, c := range change {
		c(p)
	}
	s.until("the pod can be made", func() error { return client.IgnoreAlreadyExists(s.kubernetes.Create(s.t.Context(), p.DeepCopy())) })
}

// end removes a pod at once, as its kubelet would.
func (s *stage) end(name string) {
	s.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	if err := s.kubernetes.Delete(s.t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) runs(name string) error {
	var p corev1.Pod
	if err := s.kubernetes.Get(s.t.Context(), client.ObjectKey{Namespace: "team", Name: name}, &p); err != nil {
		return err
	}
	if p.Spec.NodeName != "n" {
		return fmt.Errorf("pod %s is not on the node: %+v", name, p.Status.Conditions)
	}
	return nil
}

// until waits for a condition, and fails with its last error.
func (s *stage) until(what string, is func() error) {
	s.t.Helper()
	await.For(s.t, 5*time.Minute, what, is)
}

func (s *stage) realNode() *corev1.Node {
	s.t.Helper()
	var n corev1.Node
	if err := s.kubernetes.Get(s.t.Context(), client.ObjectKey{Name: "n"}, &n); err != nil {
		s.t.Fatal(err)
	}
	return &n
}

func (s *stage) record() (partition.Record, bool) {
	s.t.Helper()
	r, ok, err := partition.RecordOf(s.realNode())
	if err != nil {
		s.t.Fatal(err)
	}
	return r, ok
}

func (s *stage) pools() pools.Providers {
	return pools.Providers{GRPC: nodegroups.New(s.kubernetes, s.kubernetes, nil)}
}

func policy() plan.Policy {
	p := plan.DefaultPolicy()
	p.RepartitionCooldown = 0
	return p
}

// actor writes through c.
func (s *stage) actor(c client.Client) *act.Actor {
	return act.New(act.Options{Client: c, Live: s.kubernetes, Pools: s.pools(), Policy: policy(),
		Partition: partition.NewManager(c, s.kubernetes, partition.DefaultConfigMap)})
}

// reconcile is one of the autoscaler's, by a new instance each time: its input is the cluster and
// the persisted state.
func (s *stage) reconcile(a *act.Actor) {
	s.t.Helper()
	s.api.mu.Lock()
	s.now = s.now.Add(time.Second)
	s.api.mu.Unlock()
	o := observe.New(observe.Options{Cluster: s.kubernetes, Readings: s.readings, Pools: s.pools(), ConfigMap: partition.DefaultConfigMap})
	seen, err := o.Observe(s.t.Context(), s.clock())
	if err != nil {
		s.t.Fatal(err)
	}
	seen.State = s.memory
	if err := errors.Join(seen.Check(), seen.Invalid["p"]); err != nil {
		s.t.Fatal(err)
	}
	p := plan.Make(seen.Snapshot, policy())
	s.memory = p.State
	for _, r := range a.Apply(s.t.Context(), seen.Snapshot, p) {
		s.t.Logf("%s: %s %v", r.Action.Verb, r.Outcome, r.Err)
	}
}

// released waits until no operation is under way, and checks the GPU's layout.
func (s *stage) released(want string) {
	s.t.Helper()
	s.until("the node is released", func() error {
		s.reconcile(s.actor(s.kubernetes))
		if r, ok := s.record(); ok {
			return fmt.Errorf("record %+v, offered %v, agent: %s", r, partition.Advertised(s.realNode()), s.realNode().Annotations[partition.AgentAnnotation])
		}
		return nil
	})
	if n := s.realNode(); n.Spec.Unschedulable {
		s.t.Error("the node is left cordoned")
	}
	if got := s.layout(); got != want {
		s.t.Errorf("the GPU is partitioned into %s, want %s", got, want)
	}
}

// readings are the samples of an exporter on the node, from the fake's state.
func (s *stage) readings() *observe.Readings {
	series := func(value float64, labels ...string) prom.Sample {
		m := map[string]string{"node": "n", "gpu": "0", "gpu_uuid": fakenvml.GPUUUID(0)}
		for i := 0; i < len(labels); i += 2 {
			m[labels[i]] = labels[i+1]
		}
		return prom.Sample{Labels: prom.FromMap(m), Value: value, Time: s.clock()}
	}
	a := observe.Answers{Age: prom.Vector{series(1)}, Info: prom.Vector{series(1, "model", "NVIDIA X900", "mig", "true")}}
	var bound corev1.PodList
	if err := s.kubernetes.List(s.t.Context(), &bound, client.InNamespace("team")); err != nil {
		s.t.Fatal(err)
	}
	taken := map[int]bool{}
	device := s.machine().GPUs[0]
	for _, i := range device.Instances {
		// Only the agent reports the placements.
		a.InstanceInfo = append(a.InstanceInfo, series(1, "gpu_instance_id", strconv.Itoa(i.ID), "profile", s.table.Name(i.Placement.Profile), "instance_uuid", i.Computes[0].UUID))
	}
	for _, p := range bound.Items {
		if p.Spec.NodeName != "n" {
			continue
		}
		for name, q := range p.Spec.Containers[0].Resources.Limits {
			left := q.Value()
			for _, i := range device.Instances {
				if left > 0 && !taken[i.ID] && mig.ResourceName(s.table.Name(i.Placement.Profile)) == string(name) {
					taken[i.ID] = true
					left--
					a.Allocated = append(a.Allocated, series(1, "gpu_instance_id", strconv.Itoa(i.ID), "namespace", "team", "pod", p.Name))
				}
			}
		}
	}
	return observe.NewReadings(s.clock(), a)
}

// playPlugin simulates the device plugin's DaemonSet and its kubelet: a deleted pod is replaced by
// another, which advertises the current layout.
func (s *stage) playPlugin(ctx context.Context) {
	for n := 0; ctx.Err() == nil; {
		var pods corev1.PodList
		if err := s.kubernetes.List(ctx, &pods, client.InNamespace("gpu-operator")); err == nil && len(pods.Items) == 0 {
			n++
			s.startPlugin(ctx, "plugin-"+strconv.Itoa(n))
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp != nil {
				_ = s.kubernetes.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0))
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *stage) startPlugin(ctx context.Context, name string) {
	state, err := s.products.Read(s.path)
	if err != nil {
		return
	}
	offered := map[string]any{}
	for _, p := range s.table.Profiles() {
		offered[mig.ResourceName(s.table.Name(p))] = "0"
	}
	count := map[string]int{}
	for _, i := range state.GPUs[0].Instances {
		r := mig.ResourceName(s.table.Name(i.Placement.Profile))
		count[r]++
		offered[r] = strconv.Itoa(count[r])
	}
	text, _ := (&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node",
		"status": map[string]any{"allocatable": offered, "capacity": offered}}}).MarshalJSON()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	if err := s.kubernetes.Status().Patch(ctx, node, client.RawPatch(types.MergePatchType, text)); err != nil {
		return
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu-operator", Name: name, Labels: map[string]string{"app": "nvidia-device-plugin-daemonset"}},
		Spec: corev1.PodSpec{NodeName: "n", AutomountServiceAccountToken: ptr.To(false), Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	if err := s.kubernetes.Create(ctx, pod); err != nil {
		return // the service account may not be there yet
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	_ = s.kubernetes.Status().Update(ctx, pod)
}

// dying is the client of an autoscaler that is killed right after it has recorded an operation on a
// node.
type dying struct{ client.Client }

func (d dying) Patch(ctx context.Context, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
	text, err := patch.Data(o)
	if err == nil && strings.Contains(string(text), `\"selected\":true`) {
		return apierrors.NewInternalError(errors.New("it was killed before this"))
	}
	return d.Client.Patch(ctx, o, patch, opts...)
}
