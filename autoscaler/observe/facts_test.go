package observe

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/plan"
)

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
	bad := pool("bad")
	bad.Spec.InterruptionsPerHour = ptr.To(resource.MustParse("-1"))
	out := newWorld(t, spot, bad).at(0)
	if len(out.Pools) != 1 || !out.Pools[0].Spot || out.Pools[0].InterruptionsPerHour != 0.05 {
		t.Errorf("pools %+v", out.Pools)
	}
	if err := out.Invalid["bad"]; err == nil || err.Error() != "spec.interruptionsPerHour: -1 is below zero" {
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
