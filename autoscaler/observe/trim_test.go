package observe

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
)

// anything fills objects with random values of their types from few words, so that references match
// now and then.
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
		func(t *time.Time, c randfill.Continue) { *t = start.Add(time.Duration(c.Intn(100)) * time.Second) },
		func(v *sample.Value, c randfill.Continue) { *v = sample.Known(float64(c.Intn(5)), 0) },
		func(f *metav1.FieldsV1, _ randfill.Continue) {},
		func(l *corev1.ResourceList, c randfill.Continue) {
			*l = corev1.ResourceList{}
			for range c.Intn(4) {
				(*l)[corev1.ResourceName(words[1+c.Intn(4)])] = *resource.NewQuantity(int64(c.Intn(5)), resource.DecimalSI)
			}
		},
	)
}

// TestTrimmedPod: the planner's view of any pod equals that of its cached form, also
// after later pods that differ in one field share parts with it.
func TestTrimmedPod(t *testing.T) {
	trim, fields := TrimPods(), reflect.TypeFor[corev1.PodSpec]().NumField()
	var wholes, kept []*corev1.Pod
	shared := 0
	for seed := range int64(400) {
		var whole, other corev1.Pod
		anything(seed).Fill(&whole)
		anything(400 + seed).Fill(&other)
		whole.Spec.Containers = append(whole.Spec.Containers, corev1.Container{Name: "c"})
		sibling, field := whole.DeepCopy(), int(seed)%fields
		reflect.ValueOf(&sibling.Spec).Elem().Field(field).Set(reflect.ValueOf(other.Spec).Field(field))
		for _, p := range []*corev1.Pod{&whole, sibling} {
			o, err := trim(p.DeepCopy())
			if err != nil {
				t.Fatal(err)
			}
			wholes, kept = append(wholes, p), append(kept, o.(*corev1.Pod))
		}
		if a, b := kept[2*seed].Spec.Containers, kept[2*seed+1].Spec.Containers; len(b) > 0 && &a[0] == &b[0] {
			shared++
		}
	}
	wanting, storing := 0, 0
	for i, whole := range wholes {
		want, got := planned(whole), planned(kept[i])
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("pod %d: trimmed %+v\nwhole %+v", i, got, want)
		}
		for _, v := range kept[i].Spec.Volumes {
			again := foreign.SlimVolumes([]corev1.Volume{v}, v1alpha1.IsLocal)
			if len(again) != 1 || !reflect.DeepEqual(again[0], v) {
				t.Fatalf("pod %d: kept %v", i, v)
			}
		}
		if got, want := claimsOf(kept[i]), claimsOf(whole); !slices.Equal(got, want) {
			t.Fatalf("pod %d: trimmed has claims %v, whole %v", i, got, want)
		}
		if len(kept[i].ManagedFields) > 0 {
			t.Fatalf("pod %d: kept %v", i, kept[i].ManagedFields)
		}
		if want.LocalStorage {
			storing++
		}
		if !want.Demand.Zero() || len(want.Others) > 0 {
			wanting++
		}
	}
	if wanting < 120 || storing < 80 || storing > 720 || shared < 80 {
		t.Errorf("of 800 pods %d have demand, %d local storage, of 400 pairs %d share: the test is too weak", wanting, storing, shared)
	}
}

// TestTrimmedNode is the same for nodes.
func TestTrimmedNode(t *testing.T) {
	o := &Observer{o: Options{MaxAge: time.Minute}, idle: newTracker(time.Minute)}
	for seed := range int64(400) {
		var whole corev1.Node
		anything(seed).Fill(&whole)
		if seed%2 == 0 { // a node of a pool
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

// TestTrimKeepsGpuscaleAnnotations: gpuscale's annotations are kept at any length, others only if short.
func TestTrimKeepsGpuscaleAnnotations(t *testing.T) {
	long := strings.Repeat("x", 2*maxKeptAnnotation)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{partition.TableAnnotation: long, "other.io/notes": long, "other.io/short": "y"}}}
	if _, err := TrimNode(n); err != nil {
		t.Fatal(err)
	}
	if n.Annotations[partition.TableAnnotation] != long || n.Annotations["other.io/notes"] != "" || n.Annotations["other.io/short"] != "y" {
		t.Errorf("annotations %d", len(n.Annotations))
	}
	if other, err := TrimPods()("no pod"); err != nil || other != "no pod" {
		t.Errorf("of another type: %v, %v", other, err)
	}
}

// TestDeviceClassChangesInvalidateCaches: the meaning of an extended resource may change without any change
// of a pod or node.
func TestDeviceClassChangesInvalidateCaches(t *testing.T) {
	var pods converted
	var nodes knownNodes
	list := corev1.ResourceList{"example.com/fast": resource.MustParse("1")}
	p, n := benchPod("a", "", 1), node("n", list)
	p.Spec.Containers[0].Resources.Requests = list
	n.UID, n.ResourceVersion = "u", "1"
	for _, c := range []struct {
		classes      []resourcev1.DeviceClass
		gpus, others int
	}{{nil, 0, 1}, {classesServing("example.com/fast"), 1, 0}} {
		claims := NewClaims(nil, nil, c.classes, nil)
		pods.begin(claims)
		nodes.begin(claims)
		got, facts := pods.of(claims, p), nodes.of(claims, n)
		if got.Demand.GPUs != c.gpus || len(got.Others) != c.others || len(facts.Others) != c.others {
			t.Errorf("%d classes: %d GPUs, others %v, of the node %v", len(c.classes), got.Demand.GPUs, got.Others, facts.Others)
		}
		pods.end()
		nodes.end()
	}
}

// classesServing is a class of whole GPUs that serves an extended resource.
func classesServing(name string) []resourcev1.DeviceClass {
	all := nvidiaClasses()[:1]
	all[0].Spec.ExtendedResourceName = &name
	return all
}

// planned is the planner's view of a pod. An empty selector equals none.
// claimsOf are the names of a pod's claims.
func claimsOf(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		if name := claimOfVolume(p.Name, &p.Spec.Volumes[i]); name != "" {
			out = append(out, name)
		}
	}
	return out
}

func planned(p *corev1.Pod) plan.Pod {
	out := ConvertPod(p)
	newRules(nil).of(p.Namespace, p.Labels, &p.Spec, &out)
	if len(out.NodeSelector) == 0 {
		out.NodeSelector = nil
	}
	return out
}
