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

// TestDemandAsTheSchedulerCounts: of plain cards a pod wants what
// component-helpers, and so the scheduler, says.
func TestDemandAsTheSchedulerCounts(t *testing.T) {
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
		if err != nil || int64(got.Cards) != want.Value() {
			t.Fatalf("%d cards, %v; want %d of init %v and %v", got.Cards, err, want.Value(), p.Spec.InitContainers, p.Spec.Containers)
		}
	}
}

// TestPartsAreReadByContainer: HAMi's parts of cards mean another thing in a sum.
func TestPartsAreReadByContainer(t *testing.T) {
	half := map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "nvidia.com/gpucores": 50}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		container("a", half), container("b", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1}),
	}}}
	got, err := (*Claims)(nil).demandOfPod(p)
	if err != nil || got.Cards != 1 || got.Fraction == nil || got.Fraction.CoreMilli != 500 {
		t.Errorf("%v, %v: want a card, and half of another", got, err)
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
	if seen.Nodes[0].Cards[0].HoldersKnown {
		t.Error("the pod that runs may hold the card")
	}
}

// TestEffectiveRequests: what a pod takes of CPU, memory and cards, all told.
func TestEffectiveRequests(t *testing.T) {
	card := map[corev1.ResourceName]int64{"nvidia.com/gpu": 1, "cpu": 2, "memory": 1 << 30}
	plain := func(n int64) map[corev1.ResourceName]int64 {
		return map[corev1.ResourceName]int64{"nvidia.com/gpu": n, "cpu": n, "memory": n << 30}
	}
	list := func(amounts map[corev1.ResourceName]int64) corev1.ResourceList {
		return container("", amounts).Resources.Requests
	}
	for _, c := range []struct {
		what  string
		pod   corev1.Pod
		cards int
		cpu   int64 // milli
		mi    int64
	}{
		{"containers side by side", corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", card), container("b", card)}}}, 2, 4000, 2048},
		{"a larger init container", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("i", plain(5))}, Containers: []corev1.Container{container("a", card)}}}, 5, 5000, 5120},
		{"a sidecar runs beside", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{sidecar(container("s", plain(1)))}, Containers: []corev1.Container{container("a", card)}}}, 2, 3000, 2048},
		{"an init container beside the sidecar before it", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{sidecar(container("s", plain(1))), container("i", plain(4))}, Containers: []corev1.Container{container("a", card)}}}, 5, 5000, 5120},
		{"an init container before the sidecar", corev1.Pod{Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{container("i", plain(4)), sidecar(container("s", plain(1)))}, Containers: []corev1.Container{container("a", card)}}}, 4, 4000, 4096},
		{"overhead", corev1.Pod{Spec: corev1.PodSpec{
			Overhead: list(map[corev1.ResourceName]int64{"cpu": 1, "memory": 256 << 20}), Containers: []corev1.Container{container("a", card)}}}, 1, 3000, 1280},
		{"pod-level resources are the pod's, cards stay the containers'", corev1.Pod{Spec: corev1.PodSpec{
			Resources:  &corev1.ResourceRequirements{Requests: list(map[corev1.ResourceName]int64{"cpu": 8, "memory": 4 << 30})},
			Containers: []corev1.Container{container("a", card), container("b", map[corev1.ResourceName]int64{"nvidia.com/gpu": 1})}}}, 2, 8000, 4096},
		{"grown in place, and not shrunk yet", corev1.Pod{
			Spec: corev1.PodSpec{Containers: []corev1.Container{container("a", card)}},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "a",
				Resources: &corev1.ResourceRequirements{Requests: list(map[corev1.ResourceName]int64{"cpu": 6, "memory": 1 << 30})}}}}}, 1, 6000, 1024},
	} {
		got := ConvertPod(&c.pod)
		if got.Unreadable != "" || got.Demand.Cards != c.cards || got.CPUMilli != c.cpu || got.MemoryMi != c.mi {
			t.Errorf("%s: %d cards, %d m, %d Mi, %q; want %d, %d, %d", c.what, got.Demand.Cards, got.CPUMilli, got.MemoryMi, got.Unreadable, c.cards, c.cpu, c.mi)
		}
	}
}

// TestPartsForKAI: KAI's annotations count on pods that it schedules, and its own
// pods stand in for them.
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
		{"KAI's", of("kai-scheduler", half), "50 % memory of a card"},
		{"KAI's, under another name", of("my-kai", half), "50 % memory of a card"},
		{"nobody's", of("", half), "none"},
		{"the default scheduler's", of("default-scheduler", half), "none"},
		{"wrong", of("kai-scheduler", map[string]string{"gpu-fraction": "2"}), "!annotation gpu-fraction"},
		{"wrong, and not KAI's", of("", map[string]string{"gpu-memory": "large"}), "none"},
		{"a reservation", own("kai-resource-reservation", "kai-resource-reservation"), "none"},
		{"a scaling pod", own("kai-scale-adjust", "scaling-pod"), "none"},
		{"another pod there", own("kai-resource-reservation", "burn-in"), "1 card"},
		{"a pod of that name elsewhere", own("team", "scaling-pod"), "1 card"},
	} {
		checkDemand(t, c.what, ConvertPod(&c.pod), c.want)
	}
}
