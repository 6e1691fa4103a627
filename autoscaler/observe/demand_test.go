package observe

import (
	"math/rand"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"github.com/gpuscale/gpuscale/plan"
)

func container(name string, amounts map[corev1.ResourceName]int64) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for r, n := range amounts {
		c.Resources.Requests[r] = *apiresource.NewQuantity(n, apiresource.DecimalSI)
	}
	return c
}

func sidecar(c corev1.Container) corev1.Container {
	c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
	return c
}

// TestDemandMatchesTheScheduler: the demand for whole GPUs equals that of component-helpers, and
// so the scheduler's.
func TestDemandMatchesTheScheduler(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	some := func() corev1.Container {
		return container("c", map[corev1.ResourceName]int64{"nvidia.com/gpu": int64(r.Intn(4))})
	}
	for range 500 {
		p := &corev1.Pod{}
		for range r.Intn(4) {
			c := some()
			if r.Intn(2) == 0 {
				c = sidecar(c)
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
		for range 1 + r.Intn(3) {
			p.Spec.Containers = append(p.Spec.Containers, some())
		}
		if r.Intn(2) == 0 {
			p.Spec.Overhead = container("", map[corev1.ResourceName]int64{"nvidia.com/gpu": int64(r.Intn(2)), "cpu": 1}).Resources.Requests
		}
		all := resource.PodRequests(p, resource.PodResourcesOptions{})
		want := all["nvidia.com/gpu"]
		got, err := (*Claims)(nil).demandOfPod(p)
		if err != nil || int64(got.GPUs) != want.Value() {
			t.Fatalf("%d GPUs, %v; want %d of init %v and %v", got.GPUs, err, want.Value(), p.Spec.InitContainers, p.Spec.Containers)
		}
	}
}

// TestPartsAreReadByContainer: HAMi's parts of GPUs have another meaning in a sum.
func TestPartsAreReadByContainer(t *testing.T) {
	half := map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "nvidia.com/gpucores": 50}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		container("a", half), container("b", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}),
	}}}
	got, err := (*Claims)(nil).demandOfPod(p)
	if err != nil || got.GPUs != 1 || got.Fraction == nil || got.Fraction.CoreMilli != 500 {
		t.Errorf("%v, %v: want a GPU, and half of another", got, err)
	}
}

func TestUnreadableDemand(t *testing.T) {
	waits := stuckPod("waits", nil)
	waits.Spec.Containers = []corev1.Container{
		container("a", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}), container("b", map[corev1.ResourceName]int64{"amd.com/gpu": 1}),
	}
	runs := waits.DeepCopy()
	runs.Name, runs.Spec.NodeName, runs.Status = "runs", "n", corev1.PodStatus{}
	w := newWorld(t, pool("p"), node("n", halves(2)), waits, runs)
	w.readings = NewReadings(start, twoHalves(1))
	seen := w.at(0)
	if got := w.verdictOn("waits", 0, 0); got != plan.DemandUnreadable {
		t.Errorf("%q, want %s", got, plan.DemandUnreadable)
	}
	for _, p := range seen.Pods {
		if !strings.Contains(p.Unreadable, "amd") || !p.Demand.Zero() {
			t.Errorf("pod %s: %q, %v", p.Name, p.Unreadable, p.Demand)
		}
	}
	if seen.Nodes[0].GPUs[0].AllocationKnown {
		t.Error("the GPU may be allocated to the running pod")
	}
}

// TestEffectiveRequests: CPU and memory are the scheduler's sums, with pod-level resources and an
// in-place resize; GPUs are the containers' sum.
func TestEffectiveRequests(t *testing.T) {
	device := map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "cpu": 2, "memory": 1<<30 + 1}
	list := func(amounts map[corev1.ResourceName]int64) corev1.ResourceList {
		return container("", amounts).Resources.Requests
	}
	spec := corev1.PodSpec{Containers: []corev1.Container{container("a", device), container("b", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1})}}
	own := *spec.DeepCopy()
	own.Resources = &corev1.ResourceRequirements{Requests: list(map[corev1.ResourceName]int64{"cpu": 8, "memory": 4 << 30})}
	grown := corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a",
		Resources: &corev1.ResourceRequirements{Requests: list(map[corev1.ResourceName]int64{"cpu": 6, "memory": 1 << 30})}}}}
	for what, c := range map[string]struct {
		pod     corev1.Pod
		cpu, mi int64 // cpu in thousandths
	}{
		"containers side by side":            {corev1.Pod{Spec: spec}, 2000, 1025},
		"pod-level resources are the pod's":  {corev1.Pod{Spec: own}, 8000, 4096},
		"grown in place, and not shrunk yet": {corev1.Pod{Spec: spec, Status: grown}, 6000, 1025},
	} {
		if got := ConvertPod(&c.pod); got.Unreadable != "" || got.Demand.GPUs != 2 || got.CPUMilli != c.cpu || got.MemoryMi != c.mi {
			t.Errorf("%s: %d GPUs, %d m, %d Mi, %q; want 2, %d, %d", what, got.Demand.GPUs, got.CPUMilli, got.MemoryMi, got.Unreadable, c.cpu, c.mi)
		}
	}
}

// TestPartsForKAI: KAI's annotations count on pods of its scheduler; KAI's own pods count for
// nothing.
func TestPartsForKAI(t *testing.T) {
	half := map[string]string{"gpu-fraction": "0.5"}
	of := func(scheduler string, annotations map[string]string) corev1.Pod {
		p := corev1.Pod{Spec: corev1.PodSpec{SchedulerName: scheduler, Containers: []corev1.Container{container("c", nil)}}}
		p.Annotations = annotations
		return p
	}
	own := func(namespace, app string) corev1.Pod {
		p := of("", nil)
		p.Namespace, p.Labels = namespace, map[string]string{"app": app}
		p.Spec.Containers[0] = container("c", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1})
		return p
	}
	for _, c := range []struct {
		what string
		pod  corev1.Pod
		want string
	}{
		{"KAI's", of("kai-scheduler", half), "50 % memory of a GPU"},
		{"KAI's, under another name", of("my-kai", half), "50 % memory of a GPU"},
		{"without a scheduler's name", of("", half), "none"},
		{"the default scheduler's", of("default-scheduler", half), "none"},
		{"wrong", of("kai-scheduler", map[string]string{"gpu-fraction": "2"}), "!annotation gpu-fraction"},
		{"wrong, and not KAI's", of("", map[string]string{"gpu-memory": "large"}), "none"},
		{"a reservation", own("kai-resource-reservation", "kai-resource-reservation"), "none"},
		{"a scaling pod", own("kai-scale-adjust", "scaling-pod"), "none"},
		{"another pod there", own("kai-resource-reservation", "burn-in"), "1 GPU"},
		{"a pod of that name elsewhere", own("team", "scaling-pod"), "1 GPU"},
	} {
		checkDemand(t, c.what, ConvertPod(&c.pod), c.want)
	}
}
