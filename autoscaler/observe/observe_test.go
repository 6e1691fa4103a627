package observe

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// world is the input of an Observer under test.
type world struct {
	t        *testing.T
	client   client.Client
	readings *Readings
	o        *Observer
	state    plan.State
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t}
	w.client = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
	m := partition.NewManager(w.client, w.client, partition.DefaultConfigMap)
	w.o = New(Options{
		Cluster: w.client, Readings: func() *Readings { return w.readings },
		Pools:     pools.Providers{GRPC: nodegroups.New(w.client, w.client, m)},
		ConfigMap: partition.DefaultConfigMap,
	})
	return w
}

// at observes at a time after start, and checks that the result passes the planner's check.
func (w *world) at(after time.Duration) Observation {
	w.t.Helper()
	out, err := w.o.Observe(w.t.Context(), start.Add(after))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := out.Check(); err != nil {
		w.t.Errorf("the snapshot does not pass its check: %v", err)
	}
	return out
}

func pool(name string) *v1alpha1.GPUNodePool {
	return &v1alpha1.GPUNodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.GPUNodePoolSpec{
			Min: 1, Max: 4, PricePerHour: ptr.To(resource.MustParse("2.5")),
			Provider: nodegroups.Of(name),
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", GPUs: 1,
				CPU: resource.MustParse("32"), Memory: resource.MustParse("256Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"3g.40gb": 2}}, AllowedProfiles: []string{"3g.40gb", "1g.10gb"}},
		},
	}
}

// node is a ready H100 node of pool "p" that advertises resources.
func node(name string, offered corev1.ResourceList) *corev1.Node {
	list := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("256Gi")}
	for k, v := range offered {
		list[k] = v
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Labels: map[string]string{
			v1alpha1.NodePoolLabel: "p", partition.PresentLabel: "true", partition.ProductLabel: "NVIDIA-H100-80GB-HBM3", partition.CountLabel: "1",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
			{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}, {Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule},
		}},
		Status: corev1.NodeStatus{
			Allocatable: list,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func halves(n int) corev1.ResourceList {
	return corev1.ResourceList{"nvidia.com/mig-3g.40gb": resource.MustParse(strconv.Itoa(n))}
}

func pod(name, on string, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name, CreationTimestamp: metav1.NewTime(start.Add(-time.Minute))},
		Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{
			Resources: corev1.ResourceRequirements{Requests: requests},
		}}},
	}
}

func series(value float64, labels ...string) prom.Sample {
	m := map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		m[labels[i]] = labels[i+1]
	}
	return prom.Sample{Labels: prom.FromMap(m), Value: value, Time: start}
}

// twoHalves are the samples of an exporter on node "n" with a GPU partitioned into halves;
// allocatedTo are the pods of instances 1, 2, ….
func twoHalves(age float64, allocatedTo ...string) Answers {
	a := Answers{
		Age:  prom.Vector{series(age, "node", "n")},
		Info: prom.Vector{series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "model", "NVIDIA H100 80GB HBM3", "mig", "true")},
	}
	for i, start := range []string{"0", "4"} {
		id := strconv.Itoa(i + 1)
		a.InstanceInfo = append(a.InstanceInfo, series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1",
			"gpu_instance_id", id, "profile", "3g.40gb", "start", start, "size", "4", "instance_uuid", "MIG-"+id))
	}
	for i, h := range allocatedTo {
		a.Allocated = append(a.Allocated, series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "gpu_instance_id", strconv.Itoa(i+1),
			"exported_namespace", "chat", "exported_pod", h, "namespace", "gpuscale-system", "pod", "exporter-x"))
	}
	return a
}

func TestAllocationsAndIdleSince(t *testing.T) {
	w := newWorld(t, pool("p"), node("n", halves(2)), pod("a", "n", halves(1)))
	w.readings = NewReadings(start, twoHalves(1, "a"))
	device := w.at(0).Nodes[0].GPUs[0]
	if !device.AllocationKnown || !device.MIG || device.UUID != "GPU-1" || device.Model.Name != "H100-80GB" {
		t.Fatalf("GPU %+v", device)
	}
	first, second := device.Instances[0], device.Instances[1]
	if first.AllocatedTo != "chat/a" || !first.IdleSince.IsZero() || !first.Placed || first.Start != 0 {
		t.Errorf("first %+v", first)
	}
	if second.AllocatedTo != "" || !second.IdleSince.Equal(start) || second.Start != 4 {
		t.Errorf("second %+v: free since it is first seen", second)
	}
	if !device.IdleSince.IsZero() {
		t.Error("an allocated GPU is idle")
	}
	w.readings = NewReadings(start.Add(10*time.Second), twoHalves(1, "a"))
	if got := w.at(10 * time.Second).Nodes[0].GPUs[0].Instances[1].IdleSince; !got.Equal(start) {
		t.Errorf("still free, but since %s", got)
	}
	w.readings = NewReadings(start.Add(20*time.Second), twoHalves(1, "a", "b"))
	w.at(20 * time.Second)
	w.readings = NewReadings(start.Add(25*time.Second), twoHalves(1, "a"))
	if got := w.at(25 * time.Second).Nodes[0].GPUs[0].Instances[1].IdleSince; !got.Equal(start.Add(25 * time.Second)) {
		t.Errorf("released at 25 s, free since %s", got)
	}
}

// TestUnknownIsNotFree: each of these makes a GPU unknown that was known to be free.
func TestUnknownIsNotFree(t *testing.T) {
	operation := partition.Record{ID: "op", Model: "H100-80GB", Target: "7g.80gb@0", Config: "c", Previous: "halves", Deadline: start.Add(time.Minute)}.String()
	free := twoHalves(1)
	for name, c := range map[string]struct {
		after   time.Duration
		answers *Answers // a second later than the first ones; nil: none
		bound   string
		record  string
	}{
		"the exporter's sample is old":                {answers: ptr.To(twoHalves(31))},
		"Prometheus' answer is old":                   {after: 30 * time.Second},
		"a bound pod is not attributed":               {answers: &free, bound: "late"},
		"the exporter has no attribution":             {answers: &Answers{Info: free.Info, InstanceInfo: free.InstanceInfo}},
		"an instance is allocated that is not listed": {answers: &Answers{Age: free.Age, Info: free.Info, Allocated: twoHalves(1, "a").Allocated}},
		"the layout is not what is advertised":        {answers: &Answers{Age: free.Age, Info: free.Info, InstanceInfo: free.InstanceInfo[:1]}},
		// mig-manager stops the node's exporter during a repartition.
		"the exporter has ended":                     {answers: &Answers{}},
		"the exporter has ended for a repartition":   {answers: &Answers{}, record: operation},
		"the answer is partial during a repartition": {answers: &Answers{Age: free.Age}, record: operation},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("n", halves(2))
			n.Labels[partition.ConfigLabel] = "halves"
			w := newWorld(t, pool("p"), n)
			if device := w.at(0).Nodes[0].GPUs[0]; device.AllocationKnown || !device.IdleSince.IsZero() {
				t.Fatalf("Prometheus never answered: %+v", device)
			}
			w.readings = NewReadings(start, free)
			if device := w.at(0).Nodes[0].GPUs[0]; !device.AllocationKnown || !device.Instances[1].IdleSince.Equal(start) {
				t.Fatalf("before: %+v", device)
			}
			if c.bound != "" {
				if err := w.client.Create(t.Context(), pod(c.bound, "n", halves(1))); err != nil {
					t.Fatal(err)
				}
			}
			if c.record != "" {
				n.Annotations = map[string]string{partition.RecordAnnotation: c.record}
				if err := w.client.Update(t.Context(), n); err != nil {
					t.Fatal(err)
				}
			}
			if c.answers != nil {
				w.readings = NewReadings(start.Add(time.Second), *c.answers)
			}
			gpus := w.at(max(c.after, time.Second)).Nodes[0].GPUs
			if len(gpus) != 1 || gpus[0].AllocationKnown || !gpus[0].IdleSince.IsZero() {
				t.Errorf("GPUs %+v", gpus)
			}
			for _, i := range gpus[0].Instances {
				if !i.IdleSince.IsZero() {
					t.Errorf("an instance is free since %s", i.IdleSince)
				}
			}
		})
	}
}

// TestAttributionIsOfAnEarlierPod: a pod that was created under the same name since the exporter
// read the allocations may have another instance.
func TestAttributionIsOfAnEarlierPod(t *testing.T) {
	for _, test := range []struct {
		created time.Duration // after start
		age     float64       // of the attribution at start + 10 s, in seconds
		known   bool
	}{
		{-time.Minute, 5, true},
		{2 * time.Second, 5, true},
		// Creation times have whole seconds.
		{5 * time.Second, 5, false},
		{6 * time.Second, 5, false},
		{6 * time.Second, 3, true},
	} {
		p := pod("web-0", "n", halves(1))
		p.CreationTimestamp = metav1.NewTime(start.Add(test.created))
		w := newWorld(t, pool("p"), node("n", halves(2)), p)
		w.readings = NewReadings(start.Add(10*time.Second), twoHalves(test.age, "web-0"))
		device := w.at(10 * time.Second).Nodes[0].GPUs[0]
		if device.AllocationKnown != test.known || device.Instances[0].AllocatedTo != "chat/web-0" {
			t.Errorf("%+v: GPU %+v", test, device)
		}
	}
}

// TestUnattributedPodAffectsFewGPUs: an unattributed pod affects only the GPUs that could serve it.
func TestUnattributedPodAffectsFewGPUs(t *testing.T) {
	w := newWorld(t, pool("p"), node("n", halves(2)), pod("small", "n", corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("1")}))
	w.readings = NewReadings(start, twoHalves(1))
	if device := w.at(0).Nodes[0].GPUs[0]; !device.AllocationKnown {
		t.Error("a GPU of halves is unknown because of a 1g pod")
	}
}

func TestFallbackToConfig(t *testing.T) {
	n := node("n", halves(2))
	n.Labels[partition.ConfigLabel] = "halves"
	w := newWorld(t, pool("p"), n, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: partition.DefaultConfigMap.Namespace, Name: partition.DefaultConfigMap.Name},
		Data: map[string]string{partition.ConfigKey: `version: v1
mig-configs: {halves: [{devices: all, mig-enabled: true, mig-devices: {3g.40gb: 2}}]}`},
	})
	device := w.at(0).Nodes[0].GPUs[0]
	if len(device.Instances) != 2 || device.Instances[0].Placed || device.AllocationKnown || !device.MIG {
		t.Errorf("GPU %+v", device)
	}
}

func TestNode(t *testing.T) {
	n := node("n", halves(2))
	n.Spec.Unschedulable = true
	w := newWorld(t, pool("p"), n, node("booting", nil))
	out := w.at(0)
	slices.SortFunc(out.Nodes, func(a, b plan.Node) int { return len(a.Name) - len(b.Name) })
	if got := out.Nodes[0]; got.Pool != "p" || !got.Ready || !got.Cordoned || got.CordonedBy != "" || got.CPUMilli != 32000 || got.MemoryMi != 256<<10 {
		t.Errorf("node %+v", got)
	}
	if got := out.Nodes[0].Taints; len(got) != 1 || got[0].Key != "team" {
		t.Errorf("taints %v: lifecycle taints must be left out", got)
	}
	if got := out.Nodes[1]; len(got.GPUs) != 0 {
		t.Errorf("GPUs %v before the device plugin offers any", got.GPUs)
	}
	if p := out.Pools[0]; p.Size != 2 || p.Target != 2 || p.PricePerHour != 2.5 || len(p.Template.GPUs[0].Instances) != 2 || len(p.MIG.Allowed) != 2 {
		t.Errorf("pool %+v", p)
	}
}

func TestInvalidPool(t *testing.T) {
	bad := pool("p")
	bad.Spec.MIG.BootLayout = []map[string]int32{{"3g.40gb": 3}}
	w := newWorld(t, bad, node("n", halves(2)))
	out := w.at(0)
	if len(out.Pools) != 0 || out.Nodes[0].Pool != "" {
		t.Errorf("pools %v, node of %q", out.Pools, out.Nodes[0].Pool)
	}
	if err := out.Invalid["p"]; err == nil || err.Error() != "spec.mig.bootLayout[0]: no GPU of H100-80GB can have this layout" {
		t.Errorf("err = %v", err)
	}
}

func TestPods(t *testing.T) {
	waiting := pod("waits", "", halves(1))
	waiting.Labels = map[string]string{"app": "vllm", "pod-template-hash": "abc"}
	waiting.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "vllm-abc", Controller: ptr.To(true)}}
	waiting.Spec.Priority = ptr.To[int32](7)
	waiting.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		LastTransitionTime: metav1.NewTime(start.Add(5 * time.Second)),
	}}
	over := pod("over", "n", halves(1))
	over.Status.Phase = corev1.PodSucceeded
	mirror := pod("mirror", "n", nil)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	w := newWorld(t, pool("p"), node("n", halves(2)), waiting, over, mirror,
		pod("elsewhere", "cpu-node", nil), pod("cpu-only", "", nil),
		&policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "b"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "vllm"}}},
		})
	pods := map[string]plan.Pod{}
	for _, p := range w.at(0).Pods {
		pods[p.Name] = p
	}
	if len(pods) != 2 {
		t.Errorf("pods %v, want waits and mirror", pods)
	}
	got := pods["waits"]
	if got.Owner != "Deployment/vllm" || !got.Unschedulable || got.Priority != 7 || !got.Evictable || len(got.Budgets) != 1 ||
		!got.PendingSince.Equal(start.Add(5*time.Second)) || fmt.Sprint(got.Demand) != "3g.40gb×1" {
		t.Errorf("pod %+v (%s)", got, got.Demand)
	}
	if !pods["mirror"].DaemonSet {
		t.Error("a mirror pod belongs to its node")
	}
}

// TestOperationKeepsGPUs: while a GPU is repartitioned the plugin advertises nothing, and the node
// does not count as booting.
func TestOperationKeepsGPUs(t *testing.T) {
	n := node("n", nil)
	n.Annotations = map[string]string{partition.RecordAnnotation: partition.Record{
		ID: "op", Model: "H100-80GB", Target: "7g.80gb@0", Config: "c", Previous: "halves", Cordoned: true, Deadline: start.Add(time.Minute),
	}.String()}
	n.Spec.Unschedulable = true
	w := newWorld(t, pool("p"), n)
	w.readings = NewReadings(start, twoHalves(1))
	got := w.at(0).Nodes[0]
	if got.Operation == nil || got.Operation.ID != "op" || got.CordonedBy != "op" || len(got.GPUs) != 1 || len(got.GPUs[0].Instances) != 2 {
		t.Errorf("node %+v", got)
	}
}
