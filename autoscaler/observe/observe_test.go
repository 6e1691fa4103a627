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
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// world is what an Observer under test sees.
type world struct {
	t        *testing.T
	client   client.Client
	readings *Readings
	o        *Observer
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{t: t}
	w.client = fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(objects...).Build()
	m := partition.NewManager(w.client, w.client, partition.DefaultConfigMap)
	w.o = New(Options{
		Cluster: w.client, Readings: func() *Readings { return w.readings },
		Pools:     pools.Providers{KWOK: pools.NewKWOK(w.client, w.client, m)},
		ConfigMap: partition.DefaultConfigMap,
	})
	return w
}

// at observes at a time after start, and checks that the result can be planned on.
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
			Provider: v1alpha1.Provider{KWOK: &v1alpha1.KWOKProvider{}},
			Template: v1alpha1.NodeTemplate{
				Product: "NVIDIA-H100-80GB-HBM3", Cards: 1,
				CPU: resource.MustParse("32"), Memory: resource.MustParse("256Gi"),
			},
			MIG: &v1alpha1.MIG{BootLayout: []map[string]int32{{"3g.40gb": 2}}, AllowedProfiles: []string{"3g.40gb", "1g.10gb"}},
		},
	}
}

// node is a ready H100 node of pool "p" that offers resources.
func node(name string, offered corev1.ResourceList) *corev1.Node {
	list := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("256Gi")}
	for k, v := range offered {
		list[k] = v
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Labels: map[string]string{
			v1alpha1.NodePoolLabel: "p", gpuPresentLabel: "true", productLabel: "NVIDIA-H100-80GB-HBM3", countLabel: "1",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}, {Key: "team", Value: "a", Effect: corev1.TaintEffectNoSchedule},
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
		ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name, CreationTimestamp: metav1.NewTime(start)},
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

// twoHalves is what an exporter on node "n" says about a card cut in halves, of
// which holders hold instances 1, 2, ….
func twoHalves(age float64, holders ...string) Answers {
	a := Answers{
		Age:  prom.Vector{series(age, "node", "n")},
		Info: prom.Vector{series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "model", "NVIDIA H100 80GB HBM3", "mig", "true")},
	}
	for i, start := range []string{"0", "4"} {
		id := strconv.Itoa(i + 1)
		a.InstanceInfo = append(a.InstanceInfo, series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1",
			"gpu_instance_id", id, "profile", "3g.40gb", "start", start, "size", "4", "instance_uuid", "MIG-"+id))
	}
	for i, h := range holders {
		a.Held = append(a.Held, series(1, "node", "n", "gpu", "0", "gpu_uuid", "GPU-1", "gpu_instance_id", strconv.Itoa(i+1),
			"exported_namespace", "chat", "exported_pod", h, "namespace", "gpuscale-system", "pod", "exporter-x"))
	}
	return a
}

func TestHoldersAndIdleSince(t *testing.T) {
	w := newWorld(t, pool("p"), node("n", halves(2)), pod("a", "n", halves(1)))
	w.readings = NewReadings(start, twoHalves(1, "a"))
	card := w.at(0).Nodes[0].Cards[0]
	if !card.HoldersKnown || !card.MIG || card.UUID != "GPU-1" || card.Model.Name != "H100-80GB" {
		t.Fatalf("card %+v", card)
	}
	first, second := card.Instances[0], card.Instances[1]
	if first.Holder != "chat/a" || !first.IdleSince.IsZero() || !first.Placed || first.Start != 0 {
		t.Errorf("first %+v", first)
	}
	if second.Holder != "" || !second.IdleSince.Equal(start) || second.Start != 4 {
		t.Errorf("second %+v: free since it is first seen", second)
	}
	if !card.IdleSince.IsZero() {
		t.Error("a held card is idle")
	}
	w.readings = NewReadings(start.Add(10*time.Second), twoHalves(1, "a"))
	if got := w.at(10 * time.Second).Nodes[0].Cards[0].Instances[1].IdleSince; !got.Equal(start) {
		t.Errorf("still free, but since %s", got)
	}
	w.readings = NewReadings(start.Add(20*time.Second), twoHalves(1, "a", "b"))
	w.at(20 * time.Second)
	w.readings = NewReadings(start.Add(25*time.Second), twoHalves(1, "a"))
	if got := w.at(25 * time.Second).Nodes[0].Cards[0].Instances[1].IdleSince; !got.Equal(start.Add(25 * time.Second)) {
		t.Errorf("released at 25 s, said to be free since %s", got)
	}
}

// TestUnknownIsNotFree: each of these leaves the card alone.
func TestUnknownIsNotFree(t *testing.T) {
	for name, c := range map[string]struct {
		after   time.Duration
		answers *Answers
		bound   string
	}{
		"Prometheus never answered":        {},
		"the exporter's word is old":       {answers: ptr.To(twoHalves(31))},
		"Prometheus' answer is old":        {answers: ptr.To(twoHalves(1)), after: 30 * time.Second},
		"a bound pod is not attributed":    {answers: ptr.To(twoHalves(1)), bound: "late"},
		"the exporter does not know holds": {answers: &Answers{Info: twoHalves(1).Info, InstanceInfo: twoHalves(1).InstanceInfo}},
		"an instance is held that is not listed": {answers: &Answers{
			Age: twoHalves(1).Age, Info: twoHalves(1).Info, Held: twoHalves(1, "a").Held,
		}},
		"the layout is not what is offered": {answers: &Answers{
			Age: twoHalves(1).Age, Info: twoHalves(1).Info, InstanceInfo: twoHalves(1).InstanceInfo[:1],
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pool("p"), node("n", halves(2)))
			if c.bound != "" {
				if err := w.client.Create(t.Context(), pod(c.bound, "n", halves(1))); err != nil {
					t.Fatal(err)
				}
			}
			if c.answers != nil {
				w.readings = NewReadings(start, *c.answers)
			}
			for _, card := range w.at(c.after).Nodes[0].Cards {
				if card.HoldersKnown || !card.IdleSince.IsZero() {
					t.Errorf("card %+v", card)
				}
			}
		})
	}
}

// TestDoubtIsNarrow: an unattributed pod makes only cards doubtful that it can be on.
func TestDoubtIsNarrow(t *testing.T) {
	w := newWorld(t, pool("p"), node("n", halves(2)), pod("small", "n", corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("1")}))
	w.readings = NewReadings(start, twoHalves(1))
	if card := w.at(0).Nodes[0].Cards[0]; !card.HoldersKnown {
		t.Error("a 1g pod cannot be on a card of halves")
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
	card := w.at(0).Nodes[0].Cards[0]
	if len(card.Instances) != 2 || card.Instances[0].Placed || card.HoldersKnown || !card.MIG {
		t.Errorf("card %+v", card)
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
		t.Errorf("taints %v: what comes and goes with readiness is no taint to plan by", got)
	}
	if got := out.Nodes[1]; len(got.Cards) != 0 {
		t.Errorf("cards %v before the device plugin offers any", got.Cards)
	}
	if p := out.Pools[0]; p.Size != 2 || p.Target != 2 || p.PricePerHour != 2.5 || len(p.Template.Cards[0].Instances) != 2 || len(p.MIG.Allowed) != 2 {
		t.Errorf("pool %+v", p)
	}
}

func TestInvalidPoolIsLeftAlone(t *testing.T) {
	bad := pool("p")
	bad.Spec.MIG.BootLayout = []map[string]int32{{"3g.40gb": 3}}
	w := newWorld(t, bad, node("n", halves(2)))
	out := w.at(0)
	if len(out.Pools) != 0 || out.Nodes[0].Pool != "" {
		t.Errorf("pools %v, node of %q", out.Pools, out.Nodes[0].Pool)
	}
	if err := out.Invalid["p"]; err == nil || err.Error() != "spec.mig.bootLayout[0]: no card of H100-80GB can hold this" {
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

// TestOperationKeepsCards: while a card is cut the plugin offers nothing, and
// the node is not taken for one that is booting.
func TestOperationKeepsCards(t *testing.T) {
	n := node("n", nil)
	n.Annotations = map[string]string{partition.RecordAnnotation: partition.Record{
		ID: "op", Model: "H100-80GB", Target: "7g.80gb@0", Config: "c", Previous: "halves", Cordoned: true, Deadline: start.Add(time.Minute),
	}.String()}
	n.Spec.Unschedulable = true
	w := newWorld(t, pool("p"), n)
	w.readings = NewReadings(start, twoHalves(1))
	got := w.at(0).Nodes[0]
	if got.Operation == nil || got.Operation.ID != "op" || got.CordonedBy != "op" || len(got.Cards) != 1 || len(got.Cards[0].Instances) != 2 {
		t.Errorf("node %+v", got)
	}
}
