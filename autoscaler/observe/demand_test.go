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
		all := resource.PodRequests(p, resource.PodResourcesOptions{})
		want := all["nvidia.com/gpu"]
		got, err := demandOfPod(p)
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
	got, err := demandOfPod(p)
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
