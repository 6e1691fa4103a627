package observe

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/plan"
)

// anything fills objects with whatever their types allow, from few words, so that
// things refer to each other now and then.
func anything(seed int64) *randfill.Filler {
	words := []string{"", "a", "nvidia.com/gpu", "rdma/hca", "nvidia.com/mig-1g.10gb", "main", "Always", "PodScheduled", "False", "Unschedulable", "gpuscale.io/x", "train"}
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(
		func(s *string, c randfill.Continue) { *s = words[c.Intn(len(words))] },
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(int64(c.Intn(5)), resource.DecimalSI)
		},
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.NewTime(start.Add(time.Duration(c.Intn(100)) * time.Second))
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) {},
		func(l *corev1.ResourceList, c randfill.Continue) {
			*l = corev1.ResourceList{}
			for range c.Intn(4) {
				(*l)[corev1.ResourceName(words[1+c.Intn(4)])] = *resource.NewQuantity(int64(c.Intn(5)), resource.DecimalSI)
			}
		},
	)
}

// TestATrimmedPodIsTheSame: whatever a pod says, the planner sees no difference
// between it and what the cache keeps of it.
func TestATrimmedPodIsTheSame(t *testing.T) {
	differ, trim := 0, TrimPods()
	for seed := range int64(1000) {
		var whole corev1.Pod
		anything(seed).Fill(&whole)
		kept, err := trim(whole.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		trimmed := kept.(*corev1.Pod)
		want, got := ConvertPod(&whole), ConvertPod(trimmed)
		byRules(&whole, &want)
		byRules(trimmed, &got)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: trimmed %+v\nwhole %+v", seed, got, want)
		}
		if len(trimmed.Spec.Volumes) > 0 || len(trimmed.ManagedFields) > 0 {
			t.Fatalf("seed %d: kept %v %v", seed, trimmed.Spec.Volumes, trimmed.ManagedFields)
		}
		if !want.Demand.Zero() || len(want.Others) > 0 {
			differ++
		}
	}
	if differ < 150 {
		t.Errorf("only %d of 1000 pods wanted anything: the test shows too little", differ)
	}
}

// TestATrimmedNodeIsTheSame is the same for nodes.
func TestATrimmedNodeIsTheSame(t *testing.T) {
	o := &Observer{o: Options{MaxAge: time.Minute}, idle: newTracker(time.Minute)}
	for seed := range int64(1000) {
		var whole corev1.Node
		anything(seed).Fill(&whole)
		if seed%2 == 0 { // one that could be ours
			offered := map[int64]string{0: "nvidia.com/gpu", 2: "nvidia.com/mig-3g.40gb"}[seed%4]
			whole.Status.Allocatable = node("n", corev1.ResourceList{corev1.ResourceName(offered): resource.MustParse("2")}).Status.Allocatable
			whole.Labels = node("n", nil).Labels
		}
		kept, err := TrimNode(whole.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		want, got := o.node(nodeInput{node: &whole, now: start}), o.node(nodeInput{node: kept.(*corev1.Node), now: start})
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: trimmed %+v\nwhole %+v", seed, got, want)
		}
	}
}

// TestTrimKeepsOurOwn: our annotations may be long, others are not kept at length.
func TestTrimKeepsOurOwn(t *testing.T) {
	long := strings.Repeat("x", 2*maxKeptAnnotation)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{partition.TableAnnotation: long, "other.io/notes": long, "other.io/short": "y"}}}
	if _, err := TrimNode(n); err != nil {
		t.Fatal(err)
	}
	if n.Annotations[partition.TableAnnotation] != long || n.Annotations["other.io/notes"] != "" || n.Annotations["other.io/short"] != "y" {
		t.Errorf("annotations %d", len(n.Annotations))
	}
	if other, err := TrimPods()("no pod"); err != nil || other != "no pod" {
		t.Errorf("of something else %v, %v", other, err)
	}
}

// TestPodsAreReadOnce: a pod is read again when it changes, or what its resources
// mean, and otherwise taken from the round before; the Snapshots are the same.
func TestPodsAreReadOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := fullCluster(6)
	kept := newBenchObserver(c)
	for round := range 30 {
		switch p := &c.pods[random.IntN(len(c.pods))]; random.IntN(3) {
		case 0: // changed
			p.ResourceVersion = strconv.Itoa(100 + round)
			p.Labels = map[string]string{"app": strconv.Itoa(round)}
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(1+random.IntN(8)), resource.DecimalSI)}
		case 1: // another pod of the same name
			p.UID += "x"
			p.Spec.NodeName = c.nodes[random.IntN(len(c.nodes))].Name
		default: // gone
			c.pods = append(c.pods[:0:0], c.pods[1:]...)
		}
		got, err := kept.Observe(t.Context(), start.Add(time.Duration(round)*time.Second))
		want, wantErr := newBenchObserver(c).Observe(t.Context(), start.Add(time.Duration(round)*time.Second))
		if err != nil || wantErr != nil {
			t.Fatal(err, wantErr)
		}
		for i := range want.Pods {
			if !reflect.DeepEqual(got.Pods[i], want.Pods[i]) {
				t.Fatalf("round %d: %+v\nread anew %+v", round, got.Pods[i], want.Pods[i])
			}
		}
		if len(kept.pods.known) != len(c.pods) {
			t.Fatalf("round %d: %d pods are kept of %d", round, len(kept.pods.known), len(c.pods))
		}
	}
}

// TestDeviceClassesAreNotMissed: what an extended resource means may change without
// any pod.
func TestDeviceClassesAreNotMissed(t *testing.T) {
	var k converted
	p := benchPod("a", "", 1)
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/fast": resource.MustParse("1")}
	read := func(c *Claims) (cards int, others int) {
		k.begin(c)
		defer k.end()
		out := k.of(c, p)
		return out.Demand.Cards, len(out.Others)
	}
	if cards, others := read(NewClaims(nil, nil, nil, nil)); cards != 0 || others != 1 {
		t.Fatalf("without a class: %d cards, %d others", cards, others)
	}
	if cards, others := read(NewClaims(nil, nil, classesServing("example.com/fast"), nil)); cards != 1 || others != 0 {
		t.Errorf("served by a class: %d cards, %d others", cards, others)
	}
}

// classesServing is a class of whole cards that serves an extended resource.
func classesServing(name string) []resourcev1.DeviceClass {
	all := nvidiaClasses()[:1]
	all[0].Spec.ExtendedResourceName = &name
	return all
}

func byRules(p *corev1.Pod, out *plan.Pod) { newRules(nil).of(p.Namespace, p.Labels, &p.Spec, out) }
