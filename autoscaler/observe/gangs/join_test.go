package gangs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/plan"
)

// kindOf finds the kind of an object as users write it.
var kindOf = map[string]foreign.Kind{
	"scheduling.volcano.sh/PodGroup": foreign.VolcanoPodGroup, "scheduling.x-k8s.io/PodGroup": foreign.PluginsPodGroup,
	"scheduling.k8s.io/PodGroup": foreign.BuiltInPodGroup, "scheduling.run.ai/PodGroup": foreign.KAIPodGroup,
	"kueue.x-k8s.io/LocalQueue": foreign.KueueLocalQueue, "kueue.x-k8s.io/ResourceFlavor": foreign.KueueFlavor,
	"kueue.x-k8s.io/Workload": foreign.KueueWorkload, "batch.volcano.sh/Job": foreign.VolcanoJob,
	"jobset.x-k8s.io/JobSet": foreign.JobSet, "leaderworkerset.x-k8s.io/LeaderWorkerSet": foreign.LeaderWorkerSet,
	"apps/Deployment": foreign.Deployment, "apps/StatefulSet": foreign.StatefulSet,
}

// world reads objects and pods as users write them. A Pod with "replicas" in its
// annotations stands for so many.
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
			decode(t, u.Object, &p)
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
			decode(t, u.Object, &h)
			in.HPAs = append(in.HPAs, h)
		default:
			gvk := u.GroupVersionKind()
			k, ok := kindOf[gvk.Group+"/"+gvk.Kind]
			if !ok {
				t.Fatalf("what is a %s?", gvk)
			}
			o := foreign.Parse(k, &u)
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			in.Objects[k] = append(in.Objects[k], o)
		}
	}
	return in
}

func decode(t *testing.T, object map[string]any, into any) {
	t.Helper()
	text, err := yaml.Marshal(object)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// convert reads whole cards only.
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

// said prints what Join made of a world: the gangs with their members, then those
// still to be made in order.
func said(in Input) string {
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
