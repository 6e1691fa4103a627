package gangs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
)

// TestJoin runs testdata/join: how each API groups pods, in the form of its documentation. In any order of the
// objects, and in both versions of Kueue's API, the result is the same.
//
//	join [listed=KIND]    the gangs and the pods still to be created, of these objects; a kind that is listed
//	                      is known to have no others. A Pod with the annotation test/replicas stands for as many
//
// The first lines count the pods that exist by gang. A line about one of them follows where it is of a Workload,
// is demand now or is none any more, cannot be read, or has a place.
func TestJoin(t *testing.T) {
	datadriven.Walk(t, "testdata/join", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			docs := strings.Split(d.Input, "\n---\n")
			first := joined(t, d, docs)
			slices.Reverse(docs)
			if other := joined(t, d, docs); other != first {
				t.Errorf("%s: in reverse\n%sinstead of\n%s", d.Pos, other, first)
			}
			for i := range docs {
				docs[i] = strings.ReplaceAll(docs[i], "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")
			}
			if other := joined(t, d, docs); other != first {
				t.Errorf("%s: in v1beta1\n%sinstead of\n%s", d.Pos, other, first)
			}
			return first
		})
	})
}

func joined(t *testing.T, d *datadriven.TestData, docs []string) string {
	t.Helper()
	in := world(t, strings.Join(docs, "\n---\n"))
	for _, arg := range d.CmdArgs {
		in.Objects[foreign.Kind(arg.Vals[0])] = map[foreign.Key]*foreign.Object{}
	}
	before := encoded(t, in.Objects)
	text := cmp.Or(report(in), "nothing\n")
	if after := encoded(t, in.Objects); after != before {
		t.Errorf("%s: a shared object was written to", d.Pos)
	}
	return text
}

// encoded are the objects but for their Devices, which have no pods.
func encoded(t *testing.T, objects foreign.Objects) string {
	t.Helper()
	var all []any
	for _, kind := range slices.Sorted(maps.Keys(objects)) {
		for _, o := range objects.Sorted(kind) {
			all = append(all, o.Group, o.Maker)
		}
	}
	text, err := json.Marshal(all)
	require.NoError(t, err)
	return string(text)
}

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
		if u.GetNamespace() == "" && !slices.Contains([]string{"ResourceFlavor", "Topology", "AdmissionCheck"}, u.GetKind()) {
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
				made, _ := convert(one.Namespace, &corev1.PodTemplateSpec{ObjectMeta: one.ObjectMeta, Spec: one.Spec})
				made.Name, made.Node, made.Unschedulable = one.Name, one.Spec.NodeName, len(one.Status.Conditions) > 0
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
			in.Objects.Add(foreign.Parse(kindOf(&u), &u))
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
	require.NoError(t, err)
}

// convert reads whole GPUs only.
func convert(namespace string, p *corev1.PodTemplateSpec) (plan.Pod, *corev1.Pod) {
	out := plan.Pod{Namespace: namespace}
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].Resources
		for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
			if d, err := demand.FromResources(kube.Extended(list)); err == nil && !d.Zero() {
				out.Demand = d
			}
		}
	}
	return out, &corev1.Pod{Spec: p.Spec}
}

// report prints the result of Join.
func report(in Input) string {
	was := map[string]bool{}
	for _, p := range in.Pods {
		was[p.Name] = p.Plan != nil && p.Plan.Unschedulable
	}
	unmade := Join(in).Unmade
	gangs, count, each := map[string]int{}, map[string]int{}, []string{}
	for _, p := range in.Pods {
		if p.Workload != "" {
			each = append(each, fmt.Sprintf("%s is of workload %s", p.Name, p.Workload))
		}
		if p.Plan == nil {
			continue
		}
		gangs[p.Plan.Gang] = p.Plan.GangMin
		count[p.Plan.Gang]++
		switch {
		case p.Plan.Unschedulable && !was[p.Name]:
			each = append(each, p.Name+" is demand")
		case was[p.Name] && !p.Plan.Unschedulable:
			each = append(each, p.Name+" is no demand")
		}
		if p.Plan.Unreadable != "" {
			each = append(each, fmt.Sprintf("%s cannot be read: %s", p.Name, p.Plan.Unreadable))
		}
		if text := placeText(p.Plan, nil); text != "" {
			each = append(each, p.Name+text)
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(count)) {
		fmt.Fprintf(&b, "%d exist in %q min %d\n", count[name], name, gangs[name])
	}
	slices.Sort(each)
	for _, line := range each {
		b.WriteString(line + "\n")
	}
	for _, one := range unmade {
		u := one.Plan
		fmt.Fprintf(&b, "%s %s %s", u.Name, u.Demand, u.Owner)
		if u.Gang != "" {
			fmt.Fprintf(&b, " in %s min %d", u.Gang, u.GangMin)
		}
		b.WriteString(placeText(u, &one.Spec) + "\n")
	}
	return b.String()
}

// placeText prints the rules about a pod's place, and those of its template.
func placeText(p *plan.Pod, s *corev1.PodSpec) string {
	var b strings.Builder
	for _, rule := range p.Near {
		fmt.Fprintf(&b, ", near %s by %s", rule.Group, rule.Key)
	}
	if len(p.Groups) > 0 {
		fmt.Fprintf(&b, ", counted in %s", strings.Join(p.Groups, " "))
	}
	if s == nil {
		return b.String()
	}
	if len(s.NodeSelector)+len(s.Tolerations) > 0 {
		fmt.Fprintf(&b, ", selects %v, tolerates", s.NodeSelector)
		for _, t := range s.Tolerations {
			fmt.Fprintf(&b, " %s %s", t.Key, t.Operator)
		}
	}
	if s.Affinity != nil {
		for _, term := range s.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			fmt.Fprintf(&b, ", near %s", termText(&term))
		}
		for _, term := range s.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			fmt.Fprintf(&b, ", apart from %s", termText(&term))
		}
	}
	return b.String()
}

// termText prints a term of an affinity, the hashes that are values by their first digits.
func termText(t *corev1.PodAffinityTerm) string {
	text := ""
	for _, r := range t.LabelSelector.MatchExpressions {
		text += strings.TrimSpace(fmt.Sprintf("%s %s ", r.Key, r.Operator))
		for _, v := range r.Values {
			text += fmt.Sprintf(" %.8s", v)
		}
		text += ", "
	}
	if t.NamespaceSelector != nil {
		text += "of all namespaces, "
	}
	return "(" + text + "by " + t.TopologyKey + ")"
}

// TestOrderDoesNotMatter: for any pods and objects in any order, the gangs and the pods still to be
// created are the same; names are unique, and all pods of a gang have the same minimum.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var docs []string
		pick := func(what string, of ...string) string { return rapid.SampledFrom(of).Draw(r, what) }
		container := func() string {
			return `containers: [{name: c, resources: {limits: {` + pick("wants", "cpu: 1", `nvidia.com/gpu: "1"`, `nvidia.com/gpu: "8"`) + `}}}]`
		}
		for i := range 4 {
			if rapid.Bool().Draw(r, "no group") {
				continue
			}
			api := []string{"scheduling.volcano.sh/v1beta1", "scheduling.x-k8s.io/v1alpha1"}[i/2]
			docs = append(docs, fmt.Sprintf("apiVersion: %s\nkind: PodGroup\nmetadata: {name: g%d}\nspec: {minMember: %d, minResources: {nvidia.com/gpu: %q}}",
				api, i%2, rapid.IntRange(-1, 4).Draw(r, "min"), pick("needs", "0", "3", "16", "900000000000000000")))
		}
		if rapid.Bool().Draw(r, "lws") {
			docs = append(docs, fmt.Sprintf("apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: l}\nspec: {replicas: %d, leaderWorkerTemplate: {size: %d, workerTemplate: {spec: {%s}}}}",
				rapid.IntRange(0, 3).Draw(r, "replicas"), rapid.IntRange(0, 3).Draw(r, "size"), container()))
		}
		if rapid.Bool().Draw(r, "jobset") {
			docs = append(docs, fmt.Sprintf("apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j, uid: j}\nspec: {replicatedJobs: [{name: a, replicas: 2, template: {spec: {template: {spec: {%s}}}}}]}", container()))
		}
		for i := range rapid.IntRange(0, 2).Draw(r, "workloads") {
			docs = append(docs, fmt.Sprintf("apiVersion: kueue.x-k8s.io/v1beta2\nkind: Workload\nmetadata: {name: w%d, ownerReferences: [{apiVersion: x/v1, kind: X, name: x, uid: %s}]}\nspec: {podSets: [{name: a, count: 3, template: {spec: {%s}}}]}\nstatus: {conditions: [%s]}",
				i, pick("of", "j", "r"), container(), condition(pick("is", "QuotaReserved", "Finished", "Evicted"))))
		}
		for i := range rapid.IntRange(0, 8).Draw(r, "pods") {
			docs = append(docs, fmt.Sprintf("kind: Pod\nmetadata:\n  name: p%d\n  %s\n  ownerReferences: [{kind: ReplicaSet, name: o, uid: %s, controller: true}]\nspec: {%s}\nstatus: {phase: %s}", i, pick("is of",
				"annotations: {scheduling.k8s.io/group-name: g0}", "labels: {scheduling.x-k8s.io/pod-group: g0}", "labels: {scheduling.x-k8s.io/pod-group: g1}",
				`labels: {leaderworkerset.sigs.k8s.io/name: l, leaderworkerset.sigs.k8s.io/group-index: "1"}`, "labels: {jobset.sigs.k8s.io/jobset-name: j, jobset.sigs.k8s.io/replicatedjob-name: a}",
				"annotations: {kueue.x-k8s.io/workload: w0}", "labels: {}"), pick("owner", "r", "s"), container(), pick("phase", "Pending", "Running", "Succeeded", "Failed")))
		}
		for i := range rapid.IntRange(0, 2).Draw(r, "HPAs") {
			if i == 0 {
				docs = append(docs, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {spec: {"+container()+"}}}")
			}
			docs = append(docs, fmt.Sprintf("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h%d, namespace: ml, creationTimestamp: \"2026-11-21T0%d:00:00Z\"}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}\nstatus: {desiredReplicas: %d}",
				i, i, rapid.IntRange(0, 4).Draw(r, "desired")))
		}
		if len(docs) == 0 {
			return
		}
		one := report(world(t, strings.Join(docs, "\n---\n")))
		again := rapid.Permutation(docs).Draw(r, "order")
		if other := report(world(t, strings.Join(again, "\n---\n"))); one != other {
			r.Fatalf("one way\n%sthe other\n%s", one, other)
		}
		in := world(t, strings.Join(docs, "\n---\n"))
		unmade := Join(in).Unmade
		names := map[string]bool{}
		for _, one := range unmade {
			u := one.Plan
			if names[u.Name] || !strings.Contains(u.Name, "~") || u.Gang != "" && u.GangMin < 1 {
				r.Fatalf("%s of %q, min %d", u.Name, u.Gang, u.GangMin)
			}
			names[u.Name] = true
		}
		if slices.ContainsFunc(in.Pods, func(p Pod) bool { return p.Plan != nil && p.Plan.Gang != "" && p.Plan.GangMin < 1 }) {
			r.Fatalf("a member says no number: %s", one)
		}
	})
}

// condition is a true condition of a Workload.
func condition(kind string) string {
	return fmt.Sprintf(`{type: %s, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}`, kind)
}

// TestHostileNumbers: absurd objects cost little, and no sum overflows.
func TestHostileNumbers(t *testing.T) {
	in := world(t, `apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 3, minResources: {nvidia.com/gpu: "16", memory: "900000000000000000", cpu: "-4", rdma/hca: "10000000000000001"}}`)
	var seen corev1.ResourceList
	in.Convert = func(namespace string, p *corev1.PodTemplateSpec) (plan.Pod, *corev1.Pod) {
		seen = p.Spec.Containers[0].Resources.Requests
		return convert(namespace, p)
	}
	Join(in)
	const most = (mostOfAnything + 2) / 3
	if memory, cpu, hca := seen[corev1.ResourceMemory], seen[corev1.ResourceCPU], seen["rdma/hca"]; memory.Value() != most || hca.Value() != most || !cpu.IsZero() {
		t.Errorf("a part of it is %v", seen)
	}
	const sets = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: %s, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}
spec: {replicas: 9999999999, leaderWorkerTemplate: {size: %d, workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`
	in = world(t, fmt.Sprintf(sets, "a", 2)+"\n---\n"+fmt.Sprintf(sets, "b", 9999999999)+"\n---\n"+`apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a, namespace: zoo}
spec: {replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`)
	converted := 0
	in.Convert = func(namespace string, p *corev1.PodTemplateSpec) (plan.Pod, *corev1.Pod) {
		converted++
		return convert(namespace, p)
	}
	made := map[string]int{}
	joined := Join(in)
	unmade, left := joined.Unmade, joined.LeftOut
	for _, one := range unmade {
		u := one.Plan
		made[u.Namespace]++
	}
	// Another namespace has all of its own.
	if made["ml"] != maxUnmade || made["zoo"] != 2 || left["ml"] == 0 || left["zoo"] != 0 || converted > 6+2*maxExclusive {
		t.Errorf("pods %v, left out %v, %d templates looked at", made, left, converted)
	}
}

// TestHostileSets: sets whose pods request no GPU are bounded by namespace, as pods are.
func TestHostileSets(t *testing.T) {
	var docs []string
	for n := range 30 {
		docs = append(docs, fmt.Sprintf(`apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a%d}
spec: {replicas: 9999999999, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c}]}}}}`, n))
	}
	j := newJoiner(world(t, strings.Join(docs, "\n---\n")))
	j.makeMissing()
	if len(j.sets) > maxUnmade {
		t.Errorf("%d sets are looked at", len(j.sets))
	}
}
