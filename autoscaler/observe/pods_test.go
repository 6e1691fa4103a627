package observe

import (
	"fmt"
	"math/rand"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// TestDemandMatchesTheScheduler: the demand for whole GPUs equals that of component-helpers, and
// so the scheduler's.
func TestDemandMatchesTheScheduler(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	some := func() corev1.Container {
		return asking(listOf(fmt.Sprint("nvidia.com/gpu=", r.Intn(4))), nil)
	}
	for range 500 {
		p := &corev1.Pod{}
		for range r.Intn(4) {
			c := some()
			if r.Intn(2) == 0 {
				c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
			}
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
		for range 1 + r.Intn(3) {
			p.Spec.Containers = append(p.Spec.Containers, some())
		}
		if r.Intn(2) == 0 {
			p.Spec.Overhead = listOf(fmt.Sprintf("nvidia.com/gpu=%d cpu=1", r.Intn(2)))
		}
		all := resource.PodRequests(p, resource.PodResourcesOptions{})
		want := all["nvidia.com/gpu"]
		got, _, err := NewClaims(nil, nil, nil, nil).demandOfPod(p)
		if err != nil || int64(got.GPUs) != want.Value() {
			t.Fatalf("%d GPUs, %v; want %d of init %v and %v", got.GPUs, err, want.Value(), p.Spec.InitContainers, p.Spec.Containers)
		}
	}
}

func limitRange(name string, items ...corev1.LimitRangeItem) corev1.LimitRange {
	return corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func perContainer(limits, requests corev1.ResourceList) corev1.LimitRangeItem {
	return corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: limits, DefaultRequest: requests}
}

func asking(requests, limits corev1.ResourceList) corev1.Container {
	return corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}}
}

func TestWithDefaults(t *testing.T) {
	cpuAndGPU := limitRange("b", perContainer(listOf("cpu=4 nvidia.com/gpu=1"), listOf("cpu=2 nvidia.com/gpu=1")))
	for _, c := range []struct {
		what   string
		spec   corev1.PodSpec
		ranges []corev1.LimitRange
		want   []corev1.ResourceRequirements // init containers, then containers
	}{
		{
			"nothing requested, no defaults", corev1.PodSpec{Containers: []corev1.Container{asking(nil, nil)}}, nil,
			[]corev1.ResourceRequirements{{}},
		},
		{
			"requests that are not stated are the limits", corev1.PodSpec{Containers: []corev1.Container{asking(listOf("cpu=1"), listOf("cpu=2 nvidia.com/gpu=2"))}}, nil,
			[]corev1.ResourceRequirements{{Requests: listOf("cpu=1 nvidia.com/gpu=2"), Limits: listOf("cpu=2 nvidia.com/gpu=2")}},
		},
		{
			"a container without requests gets a GPU, an init container too",
			corev1.PodSpec{InitContainers: []corev1.Container{asking(nil, nil)}, Containers: []corev1.Container{asking(nil, nil)}}, []corev1.LimitRange{cpuAndGPU},
			[]corev1.ResourceRequirements{
				{Requests: listOf("cpu=2 nvidia.com/gpu=1"), Limits: listOf("cpu=4 nvidia.com/gpu=1")},
				{Requests: listOf("cpu=2 nvidia.com/gpu=1"), Limits: listOf("cpu=4 nvidia.com/gpu=1")},
			},
		},
		{
			"its own limit, and so its own request, before the default request",
			corev1.PodSpec{Containers: []corev1.Container{asking(nil, listOf("cpu=8 nvidia.com/gpu=0"))}}, []corev1.LimitRange{cpuAndGPU},
			[]corev1.ResourceRequirements{{Requests: listOf("cpu=8 nvidia.com/gpu=0"), Limits: listOf("cpu=8 nvidia.com/gpu=0")}},
		},
		{
			"a default limit is a request too", corev1.PodSpec{Containers: []corev1.Container{asking(nil, nil)}},
			[]corev1.LimitRange{limitRange("a", perContainer(listOf("cpu=4"), nil))},
			[]corev1.ResourceRequirements{{Requests: listOf("cpu=4"), Limits: listOf("cpu=4")}},
		},
		{
			"of several the first by name, of its items the last; those for pods and claims have no effect",
			corev1.PodSpec{Containers: []corev1.Container{asking(nil, nil)}},
			[]corev1.LimitRange{cpuAndGPU, limitRange("a",
				perContainer(nil, listOf("cpu=7")), perContainer(nil, listOf("cpu=1")),
				corev1.LimitRangeItem{Type: corev1.LimitTypePod, DefaultRequest: listOf("memory=1Gi")})},
			[]corev1.ResourceRequirements{{Requests: listOf("cpu=1 nvidia.com/gpu=1"), Limits: listOf("cpu=4 nvidia.com/gpu=1")}},
		},
	} {
		before := c.spec.DeepCopy()
		got := withDefaults(&c.spec, c.ranges)
		for i, container := range append(got.InitContainers, got.Containers...) {
			if !equality.Semantic.DeepEqual(container.Resources, c.want[i]) {
				t.Errorf("%s: container %d has %v, want %v", c.what, i, container.Resources, c.want[i])
			}
		}
		if !reflect.DeepEqual(&c.spec, before) {
			t.Errorf("%s: the template itself was changed", c.what)
		}
		if again := withDefaults(&got, c.ranges); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: a pod that has been through it changed again", c.what)
		}
	}
}

// TestWithDefaultsPodLevel: pod-level requests follow from the sum of the containers' requests,
// after the LimitRanges' defaults, else from the pod's limits.
func TestWithDefaultsPodLevel(t *testing.T) {
	of := func(requests, limits corev1.ResourceList, containers ...corev1.Container) corev1.PodSpec {
		return corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: requests, Limits: limits}, Containers: containers}
	}
	ranges := []corev1.LimitRange{limitRange("a", perContainer(nil, listOf("cpu=2")))}
	for _, c := range []struct {
		what string
		spec corev1.PodSpec
		want corev1.ResourceList
	}{
		{"no limits: as it is", of(listOf("memory=1Gi"), nil, asking(nil, nil)), listOf("memory=1Gi")},
		{"of the containers", of(nil, listOf("cpu=8"), asking(nil, nil), asking(listOf("cpu=3"), nil)), listOf("cpu=5")},
		{"of the limits", of(nil, listOf("memory=4Gi"), asking(nil, nil)), listOf("cpu=2 memory=4Gi")},
		{"its own", of(listOf("cpu=1"), listOf("cpu=8"), asking(nil, nil)), listOf("cpu=1")},
		{"GPUs are no pod-level resource", of(nil, listOf("cpu=8"), asking(nil, listOf("nvidia.com/gpu=1"))), listOf("cpu=2")},
	} {
		got := withDefaults(&c.spec, ranges)
		if !equality.Semantic.DeepEqual(got.Resources.Requests, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got.Resources.Requests, c.want)
		}
		pod := corev1.Pod{Spec: got}
		if want := c.want["cpu"]; !want.IsZero() && NewClaims(nil, nil, nil, nil).ConvertPod(&pod).CPUMilli != want.MilliValue() {
			t.Errorf("%s: the planner sees %d m", c.what, NewClaims(nil, nil, nil, nil).ConvertPod(&pod).CPUMilli)
		}
	}
}
