package observe

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// fromTemplate is a pod as a template of one of few kinds makes it, on one of few nodes:
// among some hundred of them many are alike, and many differ in one thing.
func fromTemplate(random *rand.Rand) *corev1.Pod {
	amount := func() resource.Quantity { return *resource.NewQuantity(int64(1+random.IntN(2)), resource.DecimalSI) }
	some := func() bool { return random.IntN(3) == 0 }
	list := corev1.ResourceList{"nvidia.com/gpu": amount(), "rdma/hca": amount()}
	p := benchPod("p", fmt.Sprintf("n%d", random.IntN(2)), 1)
	p.Spec.Hostname = fmt.Sprint("p-", random.IntN(1000))
	p.Spec.Volumes = []corev1.Volume{{Name: p.Spec.Hostname}}
	p.Spec.Tolerations = nil
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list, Limits: list}
	if some() {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": amount()}}}}
		if some() {
			p.Spec.InitContainers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
	}
	if some() {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, TolerationSeconds: ptr.To[int64](300)}}
	}
	if some() {
		p.Spec.NodeSelector = map[string]string{"zone": fmt.Sprint(random.IntN(2))}
	}
	if some() {
		p.Spec.Priority = ptr.To(int32(random.IntN(2)))
	}
	if some() { // as a DaemonSet's
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{fmt.Sprint("n", random.IntN(3))}}}}},
		}}}
	}
	if some() {
		p.Spec.Overhead = corev1.ResourceList{"cpu": amount()}
	}
	return p
}

// TestWhatIsSharedIsAlike: a pod that shares with others is still itself; so is every
// one before it when the next ones come.
func TestWhatIsSharedIsAlike(t *testing.T) {
	random, trim := rand.New(rand.NewPCG(3, 4)), TrimPods()
	var wholes, kept []*corev1.Pod
	specs := map[*corev1.Container]bool{}
	for range 2000 {
		whole := fromTemplate(random)
		o, err := trim(whole.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		wholes, kept = append(wholes, whole), append(kept, o.(*corev1.Pod))
		specs[&o.(*corev1.Pod).Spec.Containers[0]] = true
	}
	for i, whole := range wholes {
		want, got := ConvertPod(whole), ConvertPod(kept[i])
		byRules(whole, &want)
		byRules(kept[i], &got)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("pod %d: %+v\nis %+v", i, got, want)
		}
	}
	if len(specs) > 500 {
		t.Errorf("2000 pods have %d specs: they hardly share", len(specs))
	}
}

// TestOneTemplateOneSpec: pods of a template share what they ask for, whatever node,
// volumes and host name they have; those of another do not.
func TestOneTemplateOneSpec(t *testing.T) {
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
		t.Error("one that asks for more has the containers of one that asks for less")
	}
}

// TestAlikeIsBounded: however many specs there are, no more are remembered.
func TestAlikeIsBounded(t *testing.T) {
	var a alike
	for i := range 3*maxAlike + 1 {
		a.of(corev1.PodSpec{SchedulerName: fmt.Sprint(i)})
		if len(a.specs) > maxAlike {
			t.Fatalf("%d specs are remembered", len(a.specs))
		}
	}
}

// TestTrimmingWritesToNoOtherPod: a pod that is in the cache is read while others of its
// template arrive, and may be trimmed again itself. It is for the race detector.
func TestTrimmingWritesToNoOtherPod(t *testing.T) {
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
