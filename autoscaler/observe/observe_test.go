package observe

import (
	"bytes"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
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
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t}
	w.client = fakeAPI().WithObjects(objects...).Build()
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
	operation := contract.Record{ID: "op", Model: "H100-80GB", Target: "7g.80gb@0", Config: "c", Previous: "halves", Deadline: start.Add(time.Minute)}.String()
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
			n.Labels[contract.ConfigLabel] = "halves"
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
				n.Annotations = map[string]string{contract.RecordAnnotation: c.record}
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
	n.Labels[contract.ConfigLabel] = "halves"
	for enabled, instances := range map[bool]int{true: 2, false: 0} { // mig-parted reads the latter, too
		w := newWorld(t, pool("p"), n, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: partition.DefaultConfigMap.Namespace, Name: partition.DefaultConfigMap.Name},
			Data: map[string]string{partition.ConfigKey: fmt.Sprintf(`version: v1
mig-configs: {halves: [{devices: all, mig-enabled: %t, mig-devices: {3g.40gb: 2}}]}`, enabled)},
		})
		device := w.at(0).Nodes[0].GPUs[0]
		if len(device.Instances) != instances || instances > 0 && device.Instances[0].Placed || device.AllocationKnown || device.MIG != enabled {
			t.Errorf("GPU %+v", device)
		}
	}
}

// TestBrokenConfigIsLoggedOnce: not in every reconcile.
func TestBrokenConfigIsLoggedOnce(t *testing.T) {
	w := newWorld(t, pool("p"), node("n", halves(2)), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: partition.DefaultConfigMap.Namespace, Name: partition.DefaultConfigMap.Name},
		Data:       map[string]string{partition.ConfigKey: "version: v9"},
	})
	var log bytes.Buffer
	w.o.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	w.at(0)
	w.at(time.Second)
	if n := strings.Count(log.String(), "mig-manager's config"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
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
	n.Annotations = map[string]string{contract.RecordAnnotation: contract.Record{
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

// TestOperationOfAClockAhead: a repartition that a leader recorded whose clock was hours ahead is overdue, and
// rolled back.
func TestOperationOfAClockAhead(t *testing.T) {
	for ahead, verb := range map[time.Duration]plan.Verb{0: "", 5 * time.Hour: plan.Rollback} {
		n := node("n", halves(2))
		n.Annotations = map[string]string{contract.RecordAnnotation: contract.Record{
			ID: "op", Model: "H100-80GB", Target: "7g.80gb@0", Config: "c", Previous: "halves", Cordoned: true, Started: start.Add(ahead), Deadline: start.Add(ahead + time.Minute),
		}.String()}
		n.Spec.Unschedulable = true
		made := plan.Make(newWorld(t, pool("p"), n).at(0).Snapshot, plan.DefaultPolicy())
		if got := slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Verb == plan.Rollback }); got != (verb != "") {
			t.Errorf("%s ahead:\n%s", ahead, made)
		}
	}
}

// owned is a pod with a controller, on node "n".
func owned(name string, annotations ...string) *corev1.Pod {
	p := pod(name, "n", halves(1))
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "r", Controller: ptr.To(true)}}
	p.Labels, p.Annotations = map[string]string{"app": name}, map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	return p
}

// seen observes and returns the pod of that name.
func (w *world) seen(name string) plan.Pod {
	w.t.Helper()
	for _, p := range w.at(0).Pods {
		if p.Name == name {
			return p
		}
	}
	w.t.Fatalf("pod %s is not in the snapshot", name)
	return plan.Pod{}
}

func TestLeaving(t *testing.T) {
	goes := owned("goes")
	goes.Finalizers = []string{"test/keep"}
	goes.DeletionTimestamp = ptr.To(metav1.NewTime(start.Add(30 * time.Second)))
	w := newWorld(t, pool("p"), node("n", halves(2)), goes, owned("stays"))
	if p := w.seen("goes"); !p.Leaving || !p.LeavesAt.Equal(start.Add(30*time.Second)) || p.Demand.Zero() {
		t.Errorf("leaving %v at %s, requests %s: its devices stay allocated until then", p.Leaving, p.LeavesAt, p.Demand)
	}
	if p := w.seen("stays"); p.Leaving || !p.LeavesAt.IsZero() {
		t.Errorf("leaving %v at %s", p.Leaving, p.LeavesAt)
	}
}

func TestEvictFrom(t *testing.T) {
	at := start.Add(time.Hour)
	w := newWorld(t, pool("p"), node("n", halves(2)),
		owned("later", v1alpha1.EvictFromAnnotation, at.Format(time.RFC3339)), owned("typo", v1alpha1.EvictFromAnnotation, "in an hour"))
	if p := w.seen("later"); !p.EvictFrom.Equal(at) || !p.Evictable {
		t.Errorf("from %s, evictable %v", p.EvictFrom, p.Evictable)
	}
	if p := w.seen("typo"); p.Evictable {
		t.Error("the time is unreadable, so the pod may not be moved")
	}
}

// TestForbiddenEvictions: Karpenter's annotation and volumes on the node's disk are in the snapshot.
func TestForbiddenEvictions(t *testing.T) {
	storing := owned("storing")
	storing.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}}}
	lasting := owned("lasting", v1alpha1.DoNotDisruptAnnotation, "1h")
	lasting.Status.StartTime = ptr.To(metav1.NewTime(start))
	kept := node("kept", halves(2))
	kept.Annotations = map[string]string{v1alpha1.DoNotDisruptAnnotation: "true"}
	w := newWorld(t, pool("p"), node("n", halves(2)), kept, storing, lasting, owned("plain"), owned("never", v1alpha1.DoNotDisruptAnnotation, "true"))
	for name, want := range map[string]plan.Pod{
		"plain": {Evictable: true}, "never": {}, "storing": {Evictable: true, LocalStorage: true}, "lasting": {Evictable: true, EvictFrom: start.Add(time.Hour)},
	} {
		if p := w.seen(name); p.Evictable != want.Evictable || p.LocalStorage != want.LocalStorage || !p.EvictFrom.Equal(want.EvictFrom) {
			t.Errorf("pod %s: evictable %v, local storage %v, from %s; want %+v", name, p.Evictable, p.LocalStorage, p.EvictFrom, want)
		}
	}
	for _, n := range w.at(0).Nodes {
		if n.NoScaleDown != (n.Name == "kept") {
			t.Errorf("node %s: no scale down is %v", n.Name, n.NoScaleDown)
		}
	}
}

// TestCheckpointEvery: the window of a pod moves on without a change of the pod.
func TestCheckpointEvery(t *testing.T) {
	saving := owned("saving", v1alpha1.CheckpointEveryAnnotation, "30m")
	saving.ResourceVersion, saving.Spec.NodeName = "1", "n"
	saving.Status.StartTime = ptr.To(metav1.NewTime(start))
	w := newWorld(t, pool("p"), node("n", halves(2)), saving)
	for after, want := range map[time.Duration]time.Duration{
		10 * time.Minute: 30 * time.Minute, 32 * time.Minute: 30 * time.Minute, 40 * time.Minute: time.Hour,
	} {
		out := w.at(after)
		if len(out.Pods) != 1 || !out.Pods[0].Evictable || !out.Pods[0].EvictFrom.Equal(start.Add(want)) {
			t.Errorf("after %s: %+v, want it evictable from %s", after, out.Pods, want)
		}
	}
}

func TestBudgets(t *testing.T) {
	pdb := func(name, app string, allowed int32) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name, Generation: 2},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
			Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, ObservedGeneration: 2},
		}
	}
	stale := pdb("stale", "c", 3)
	stale.Status.ObservedGeneration = 1
	elsewhere := pdb("elsewhere", "a", 0)
	elsewhere.Namespace = "search"
	objects := []client.Object{pool("p"), node("n", halves(2)), owned("a"), owned("b"), owned("c"), owned("d"),
		pdb("one", "a", 2), pdb("none", "b", 0), stale, elsewhere, pdb("first", "d", 1), pdb("second", "d", 1)}
	w := newWorld(t, objects...)
	for name, want := range map[string]plan.Budget{"a": {Name: "chat/one", Allowed: 2}, "b": {Name: "chat/none"}, "c": {Name: "chat/stale"}} {
		if p := w.seen(name); len(p.Budgets) != 1 || p.Budgets[0] != want || !p.Evictable {
			t.Errorf("pod %s: %v, evictable %v; want %v", name, p.Budgets, p.Evictable, want)
		}
	}
	if p := w.seen("d"); len(p.Budgets) != 2 || p.Evictable {
		t.Errorf("%v, evictable %v: the eviction API refuses a pod with two budgets", p.Budgets, p.Evictable)
	}
	unreadable := pdb("unreadable", "", 5)
	unreadable.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
	if p := newWorld(t, append(objects, unreadable)...).seen("a"); p.Evictable {
		t.Error("an invalid selector protects every pod of the namespace")
	}
}

// TestDraining: after a restart the drain's reason is known; an unknown reason counts as the least
// strict one, and an unreadable drain is overdue.
func TestDraining(t *testing.T) {
	drain := func(reason string) *v1alpha1.Drain {
		return &v1alpha1.Drain{Started: start, Deadline: start.Add(time.Minute), Reason: reason}
	}
	for name, c := range map[string]struct {
		text string
		want *plan.Draining
	}{
		"none":        {"", nil},
		"sick":        {drain("NodeSick").String(), &plan.Draining{Reason: plan.NodeSick, Started: start, Deadline: start.Add(time.Minute)}},
		"interrupted": {drain("NodeInterrupted").String(), &plan.Draining{Reason: plan.NodeInterrupted, Started: start, Deadline: start.Add(time.Minute)}},
		"unknown":     {drain("NodeEvil").String(), &plan.Draining{Reason: plan.NodeUnderused, Started: start, Deadline: start.Add(time.Minute)}},
		"broken":      {"{", &plan.Draining{Reason: plan.NodeUnderused}},
		"of a clock ahead": {v1alpha1.Drain{Started: start.Add(5 * time.Hour), Deadline: start.Add(6 * time.Hour), Reason: "NodeSick"}.String(),
			&plan.Draining{Reason: plan.NodeSick}},
	} {
		n := node("n", halves(2))
		if c.text != "" {
			n.Annotations = map[string]string{v1alpha1.DrainAnnotation: c.text}
		}
		if got := newWorld(t, pool("p"), n).at(0).Nodes[0].Drain; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestHoldsData(t *testing.T) {
	for label, want := range map[string]bool{
		"fluid.io/s-chat-llama=true":              true,
		"fluid.io/s-alluxio-chat-llama=true":      true,
		"juicefs.io/cg-worker=true":               true,
		"fluid.io/s-h-alluxio-m-chat-llama=20GiB": false,
		"fluid.io/f-chat-llama=true":              false, // only mounts it
		"fluid.io/s-chat-llama=false":             false,
		"app=true":                                false,
	} {
		n := node("n", halves(2))
		key, value, _ := strings.Cut(label, "=")
		n.Labels[key] = value
		if got := newWorld(t, pool("p"), n).at(0).Nodes[0].HoldsData; got != want {
			t.Errorf("%s: holds data %v", label, got)
		}
	}
}

func TestInterruptions(t *testing.T) {
	spot := pool("p")
	spot.Spec.Spot, spot.Spec.InterruptionsPerHour = true, ptr.To(resource.MustParse("0.05"))
	bad, endless := pool("bad"), pool("endless")
	bad.Spec.InterruptionsPerHour, endless.Spec.InterruptionsPerHour = ptr.To(resource.MustParse("-1")), ptr.To(resource.MustParse("1e400"))
	out := newWorld(t, spot, bad, endless).at(0)
	if len(out.Pools) != 1 || !out.Pools[0].Spot || out.Pools[0].InterruptionsPerHour != 0.05 {
		t.Errorf("pools %+v", out.Pools)
	}
	if err := out.Invalid["bad"]; err == nil || err.Error() != "spec.interruptionsPerHour: -1 is below zero" {
		t.Errorf("err = %v", err)
	}
	if err := out.Invalid["endless"]; err == nil || !strings.Contains(err.Error(), "is above 1e+09") {
		t.Errorf("err = %v", err)
	}
}

// TestUnusedSince: a device that is allocated and measured idle is unused since then. With anything
// missing, it is unknown.
func TestUnusedSince(t *testing.T) {
	instance := func(value float64, more ...string) prom.Sample {
		return series(value, append([]string{"node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "gpu_instance_id", "1"}, more...)...)
	}
	allocated := []string{"exported_namespace", "chat", "exported_pod", "a", "namespace", "gpuscale-system", "pod", "exporter-x"}
	base := func() Answers {
		a := twoHalves(1, "a")
		a.Idle = prom.Vector{instance(600, allocated...)}
		a.InstanceBusy = prom.Vector{instance(0)}
		a.SampleAge = prom.Vector{instance(2)}
		return a
	}
	for name, c := range map[string]struct {
		change func(*Answers)
		after  time.Duration
		want   time.Time
	}{
		"measured idle":               {want: start.Add(-600 * time.Second)},
		"still, later":                {after: 20 * time.Second, want: start.Add(-600 * time.Second)},
		"the measurements have ended": {after: 29 * time.Second},
		"the sample is old":           {change: func(a *Answers) { a.SampleAge[0].Value = 31 }},
		"its age is unknown":          {change: func(a *Answers) { a.SampleAge = nil }},
		"busy is unknown":             {change: func(a *Answers) { a.InstanceBusy = nil }},
		"the series is not there":     {change: func(a *Answers) { a.Idle = nil }},
		"it computes":                 {change: func(a *Answers) { a.Idle[0].Value = 0 }},
		"it was another pod's time":   {change: func(a *Answers) { a.Idle[0] = instance(600, "namespace", "chat", "pod", "before") }},
		"allocated to two": {change: func(a *Answers) {
			a.Allocated = append(a.Allocated, instance(1, "namespace", "chat", "pod", "b"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a := base()
			if c.change != nil {
				c.change(&a)
			}
			w := newWorld(t, pool("p"), node("n", halves(2)), owned("a"))
			w.readings = NewReadings(start, a)
			device := w.at(c.after).Nodes[0].GPUs[0]
			if got := device.Instances[0].UnusedSince; !got.Equal(c.want) {
				t.Errorf("unused since %s, want %s", got, c.want)
			}
			if !device.UnusedSince.IsZero() || !device.Instances[1].UnusedSince.IsZero() {
				t.Error("the GPU, or the free instance, is reported as allocated and unused")
			}
		})
	}
}

// TestUnusedGPU: the same for a whole GPU.
func TestUnusedGPU(t *testing.T) {
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	device := func(value float64, more ...string) prom.Sample {
		return series(value, append([]string{"node", "n", "gpu", "0", "gpu_uuid", "GPU-1"}, more...)...)
	}
	p := owned("a")
	p.Spec.Containers[0].Resources.Requests = one
	w := newWorld(t, pool("p"), node("n", one), p)
	w.readings = NewReadings(start, Answers{
		Age:       prom.Vector{series(1, "node", "n")},
		Info:      prom.Vector{device(1, "model", "NVIDIA H100 80GB HBM3", "mig", "false")},
		Allocated: prom.Vector{device(1, "namespace", "chat", "pod", "a")}, Idle: prom.Vector{device(60, "namespace", "chat", "pod", "a")},
		Busy: prom.Vector{device(0)}, SampleAge: prom.Vector{device(1)},
	})
	if got := w.at(0).Nodes[0].GPUs[0]; !got.UnusedSince.Equal(start.Add(-time.Minute)) {
		t.Errorf("GPU %+v", got)
	}
}

// TestFixedPoolSize: bounds and target of a fixed pool are its size, also when nodes get
// or lose the label.
func TestFixedPoolSize(t *testing.T) {
	p := pool("p")
	p.Spec.Min, p.Spec.Max = 0, 0
	p.Spec.Provider = v1alpha1.Provider{Fixed: &v1alpha1.FixedProvider{}}
	first, second := node("n-1", halves(2)), node("n-2", halves(2))
	w := newWorld(t, p, first)
	w.o.o.Pools = pools.Providers{Fixed: pools.NewFixed(w.client), History: pools.NewHistory(func() time.Time { return start })}
	want := func(after time.Duration, size int) {
		t.Helper()
		o := w.at(after)
		if len(o.Pools) != 1 {
			t.Fatalf("pools %+v, invalid %v", o.Pools, o.Invalid)
		}
		if p := o.Pools[0]; !p.Fixed || p.Size != size || p.Target != size || p.Min != size || p.Max != size {
			t.Errorf("fixed %v, size %d, target %d, min %d, max %d, want %d", p.Fixed, p.Size, p.Target, p.Min, p.Max, size)
		}
		if o.GrowOnly["p"] {
			t.Error("it is in GrowOnly")
		}
	}
	want(0, 1)
	if err := w.client.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	want(time.Second, 2)
	delete(second.Labels, v1alpha1.NodePoolLabel)
	if err := w.client.Update(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	want(2*time.Second, 1)
}

// kinds are those of the fakes; making them takes longer than most tests.
var (
	kinds   = scheme.New()
	decoder = serializer.NewCodecFactory(kinds).UniversalDecoder()
)

// fakeAPI begins a fake of the API server. Its tracker keeps no managedFields: the usual one makes a REST mapper
// of all types for each write, which was most of the tests' time (controller-runtime 0.25, client-go 0.37; 2026-11).
func fakeAPI() *fake.ClientBuilder {
	return fake.NewClientBuilder().WithScheme(kinds).WithObjectTracker(clienttesting.NewObjectTracker(kinds, decoder))
}
