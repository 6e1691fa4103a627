package gangs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// kindOf is the kind of an object in its YAML.
func kindOf(u *unstructured.Unstructured) foreign.Kind {
	plural, _ := meta.UnsafeGuessKindToResource(u.GroupVersionKind())
	return foreign.Kind(plural.GroupResource().String())
}

// world reads objects and pods from YAML. A Pod with "replicas" in its annotations stands for as
// many.
func world(t *testing.T, text string) Input {
	t.Helper()
	in := Input{Objects: foreign.Objects{}, Convert: convert}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		var u unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatalf("%v in %s", err, doc)
		}
		if u.GetNamespace() == "" {
			u.SetNamespace("ml")
		}
		switch u.GetKind() {
		case "Pod":
			var p corev1.Pod
			u.SetNamespace("ml")
			decode(t, &u, &p)
			n := 1
			if s := p.Annotations["test/replicas"]; s != "" {
				_, _ = fmt.Sscan(s, &n)
			}
			for i := range n {
				one := p.DeepCopy()
				if n > 1 {
					one.Name = fmt.Sprintf("%s-%d", p.Name, i)
				}
				made := convert(one.Namespace, &corev1.PodTemplateSpec{ObjectMeta: one.ObjectMeta, Spec: one.Spec})
				made.Name, made.Node = one.Name, one.Spec.NodeName
				pod := Pod{Pod: one}
				if !made.Demand.Zero() {
					pod.Plan = &made
				}
				in.Pods = append(in.Pods, pod)
			}
		case "HorizontalPodAutoscaler":
			var h autoscalingv2.HorizontalPodAutoscaler
			decode(t, &u, &h)
			in.HPAs = append(in.HPAs, h)
		default:
			o := foreign.Parse(kindOf(&u), &u)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			in.Objects[o.Kind] = append(in.Objects[o.Kind], o)
		}
	}
	in.Objects = in.Objects.Resolve([]string{foreign.AtomicScaleUp, foreign.CheckCapacity})
	return in
}

func decode(t *testing.T, u *unstructured.Unstructured, into any) {
	t.Helper()
	text, err := u.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// convert reads whole GPUs only.
func convert(namespace string, p *corev1.PodTemplateSpec) plan.Pod {
	out := plan.Pod{Namespace: namespace}
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].Resources
		for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
			if d, err := demand.FromResources(kube.Extended(list)); err == nil && !d.Zero() {
				out.Demand = d
			}
		}
	}
	return out
}

// report prints the result of Join: the gangs with their members, then the pods still to be
// created, in order.
func report(in Input) string {
	unmade := Join(in)
	var b strings.Builder
	gangs := map[string]string{}
	count := map[string]int{}
	for _, p := range in.Pods {
		if p.Plan != nil {
			gangs[p.Plan.Gang] = fmt.Sprint(p.Plan.GangMin)
			count[p.Plan.Gang]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&b, "%d exist in %q min %s\n", count[name], name, gangs[name])
	}
	for _, u := range unmade {
		fmt.Fprintf(&b, "%s %s %s", u.Name, u.Demand, u.Owner)
		if u.Gang != "" {
			fmt.Fprintf(&b, " in %s min %d", u.Gang, u.GangMin)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// TestPodsOfADeletedGang: while the garbage collector deletes the pods of a JobSet that is gone, those
// that are left are no demand of their own. Where JobSets cannot be listed they are.
func TestPodsOfADeletedGang(t *testing.T) {
	const pods = `
kind: Pod
metadata:
  name: large
  annotations: {test/replicas: "3"}
  labels: {jobset.sigs.k8s.io/jobset-name: large, jobset.sigs.k8s.io/replicatedjob-name: workers}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "2"}}}]}`
	for name, listed := range map[string]bool{"listed": true, "not listed": false} {
		t.Run(name, func(t *testing.T) {
			in := world(t, pods)
			if listed {
				in.Objects[foreign.JobSet] = []*foreign.Object{}
			}
			for i := range in.Pods {
				in.Pods[i].Plan.Unschedulable = true
			}
			Join(in)
			for _, p := range in.Pods {
				if p.Plan.Unschedulable == listed {
					t.Errorf("%s is demand: %v", p.Name, p.Plan.Unschedulable)
				}
			}
		})
	}
}
