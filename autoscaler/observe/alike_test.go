package observe

import (
	"fmt"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPodsOfOneTemplateShareTheirSpec: pods of one template share their containers, whatever node, volumes and
// host name they have; pods of another template do not.
func TestPodsOfOneTemplateShareTheirSpec(t *testing.T) {
	trim := TrimPods()
	made := func(change func(*corev1.Pod)) *corev1.Pod {
		p := benchPod("p", "n", 2)
		change(p)
		o, err := trim(p)
		if err != nil {
			t.Fatal(err)
		}
		return o.(*corev1.Pod)
	}
	first := made(func(*corev1.Pod) {})
	other := made(func(p *corev1.Pod) {
		p.Name, p.Spec.NodeName, p.Spec.Hostname = "q", "m", "q-0"
		p.Spec.Volumes = []corev1.Volume{{Name: "token-x7f2k"}}
	})
	if &first.Spec.Containers[0] != &other.Spec.Containers[0] || other.Spec.NodeName != "m" || first.Spec.NodeName != "n" {
		t.Errorf("two of a template: on %s and %s, containers at %p and %p", first.Spec.NodeName, other.Spec.NodeName, &first.Spec.Containers[0], &other.Spec.Containers[0])
	}
	more := made(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("3")
	})
	if &first.Spec.Containers[0] == &more.Spec.Containers[0] {
		t.Error("a pod that requests more shares the containers of one that requests less")
	}
}

// TestInternedSpecsAreBounded: the number of interned specs is bounded.
func TestInternedSpecsAreBounded(t *testing.T) {
	var a alike
	for i := range 3*maxAlike + 1 {
		a.of(corev1.PodSpec{SchedulerName: fmt.Sprint(i)})
		if len(a.specs) > maxAlike {
			t.Fatalf("%d specs are remembered", len(a.specs))
		}
	}
}

// TestTrimmingIsRaceFree: a cached pod is read while others of its template are trimmed, or
// it is trimmed again itself. It is for the race detector.
func TestTrimmingIsRaceFree(t *testing.T) {
	trim := TrimPods()
	o, err := trim(benchPod("p", "n", 2))
	if err != nil {
		t.Fatal(err)
	}
	first := o.(*corev1.Pod)
	want := ConvertPod(first)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			next := benchPod("p", "n", 2)
			if i%2 == 0 {
				next.Spec = first.Spec
			}
			for range 100 {
				if _, err := trim(next); err != nil {
					t.Error(err)
				}
				if got := ConvertPod(first); !reflect.DeepEqual(got, want) {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
		})
	}
	all.Wait()
}
