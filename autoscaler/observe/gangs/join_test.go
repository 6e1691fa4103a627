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
	"pgregory.net/rapid"
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
		unmade := Join(in)
		names := map[string]bool{}
		for _, u := range unmade {
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

// TestSetOfTwoGroups: where pods of one set name two PodGroups, the pods that name none belong to
// the same one in any order.
func TestSetOfTwoGroups(t *testing.T) {
	const objects = `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: j}
spec: {replicatedJobs: [{name: a, template: {spec: {parallelism: 4, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}}}]}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: one}
spec: {minMember: 2}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: two}
spec: {minMember: 2}
---
`
	pod := func(name, group string) string {
		return fmt.Sprintf("kind: Pod\nmetadata: {name: %s, annotations: {scheduling.k8s.io/group-name: %q}, labels: {jobset.sigs.k8s.io/jobset-name: j, jobset.sigs.k8s.io/replicatedjob-name: a}}\nspec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: \"1\"}}}]}", name, group)
	}
	pods := []string{pod("a", "two"), pod("b", "one"), pod("c", "")}
	first := report(world(t, objects+strings.Join(pods, "\n---\n")))
	slices.Reverse(pods)
	if other := report(world(t, objects+strings.Join(pods, "\n---\n"))); other != first || !strings.Contains(first, "j-a~0 1 GPU JobSet/j in ml/one min 2") {
		t.Errorf("one way\n%sthe other\n%s", first, other)
	}
}

// TestPlaces: what a group's own object says of the places of its pods is a rule of each pod, also of those
// that do not exist yet. Fields of Kueue 0.19 (v1beta2), KAI's PodGroup (10965f0) and Kubernetes 1.37.
func TestPlaces(t *testing.T) {
	for name, c := range map[string]struct{ world, want string }{
		"Kueue: podset-required-topology": {`apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w}
spec:
  podSets:
  - name: main
    count: 2
    topologyRequest: {required: cloud.provider.com/topology-block}
    template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}
status: {admission: {clusterQueue: team}, conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}]}`,
			"w-main~0 [{cloud.provider.com/topology-block role ml/w/main}] [role ml/w/main]\nw-main~1 [{cloud.provider.com/topology-block role ml/w/main}] [role ml/w/main]"},
		"KAI: requiredTopologyLevel": {`apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: pg}
spec: {minMember: 2, topologyConstraint: {topology: cluster, requiredTopologyLevel: topology.kubernetes.io/zone, preferredTopologyLevel: kubernetes.io/hostname}}
---
kind: Pod
metadata: {name: a, annotations: {pod-group-name: pg}, ownerReferences: [{kind: ReplicaSet, name: r, uid: r, controller: true}]}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`,
			"a [{topology.kubernetes.io/zone gang ml/pg}] [gang ml/pg]\npg~0 [{topology.kubernetes.io/zone gang ml/pg}] [gang ml/pg]"},
		"Kubernetes: schedulingConstraints": {`apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: pg}
spec: {schedulingPolicy: {gang: {minCount: 2}}, schedulingConstraints: {topology: [{key: topology.kubernetes.io/rack}]}}
---
kind: Pod
metadata: {name: a, annotations: {test/replicas: "2"}}
spec:
  schedulingGroup: {podGroupName: pg}
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]`,
			"a-0 [{topology.kubernetes.io/rack gang ml/pg}] [gang ml/pg]\na-1 [{topology.kubernetes.io/rack gang ml/pg}] [gang ml/pg]"},
	} {
		in := world(t, c.world)
		var lines []string
		for _, u := range Join(in) {
			lines = append(lines, fmt.Sprint(u.Name, " ", u.Near, " ", u.Groups))
		}
		for i := len(in.Pods) - 1; i >= 0; i-- {
			p := in.Pods[i].Plan
			lines = append([]string{fmt.Sprint(p.Name, " ", p.Near, " ", p.Groups)}, lines...)
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestExclusivePlaces: of a JobSet and a LeaderWorkerSet whose groups have a place each, a pod that does not
// exist yet has the affinity that the webhooks give the pods of its group, and only its own group's.
func TestExclusivePlaces(t *testing.T) {
	jobSet := `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}
---
kind: Pod
metadata: {name: train-workers-1-0, labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: workers, jobset.sigs.k8s.io/job-index: "1"}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}`
	lws := `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: rack}}
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 2
    workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}
---
kind: Pod
metadata: {name: vllm-0, labels: {leaderworkerset.sigs.k8s.io/name: vllm, leaderworkerset.sigs.k8s.io/group-index: "0", leaderworkerset.sigs.k8s.io/worker-index: "0"}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}`
	for _, c := range []struct{ what, world, key, label, want string }{
		// The hashes are of ml/train-workers-0, ml/train-workers-1, ml/vllm-0 and ml/vllm-1.
		{"JobSet", jobSet, "cloud.google.com/gke-nodepool", "jobset.sigs.k8s.io/job-key", "train-workers-0~0 a93a9706 train-workers-0~1 a93a9706 train-workers-1~0 9758140d"},
		{"its replicated job", strings.NewReplacer(", annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: cloud.google.com/gke-nodepool}", "",
			"template: {spec: {parallelism", "template: {metadata: {annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}, spec: {parallelism").Replace(jobSet),
			"rack", "jobset.sigs.k8s.io/job-key", "train-workers-0~0 a93a9706 train-workers-0~1 a93a9706 train-workers-1~0 9758140d"},
		{"LeaderWorkerSet", lws, "rack", "leaderworkerset.sigs.k8s.io/group-key", "vllm-0-worker~0 d94b2e1f vllm-1-leader~0 f498fe96 vllm-1-worker~0 f498fe96"},
	} {
		var got []string
		for _, u := range Join(world(t, c.world)) {
			a := u.Template.Spec.Affinity
			if a == nil || len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 || len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != 1 {
				t.Errorf("%s: %s has the affinity %v", c.what, u.Name, a)
				continue
			}
			near, apart := a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0], a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
			value := u.Template.Labels[c.label]
			if near.TopologyKey != c.key || apart.TopologyKey != c.key || (near.NamespaceSelector != nil) != strings.Contains(c.label, "jobset") ||
				near.LabelSelector.MatchExpressions[0].Values[0] != value || apart.LabelSelector.MatchExpressions[1].Values[0] != value {
				t.Errorf("%s: %s is near %v and apart from %v", c.what, u.Name, near, apart)
			}
			got = append(got, u.Name, value[:8])
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.what, text, c.want)
		}
	}
}

// TestTrainJob: a TrainJob's JobSet and the PodGroup that Kubeflow's Trainer (2.3, plugins coscheduling and
// volcano) makes beside it are one gang, before any pod exists. The TrainJob owns both. It makes the PodGroup
// of a suspended TrainJob, too.
func TestTrainJob(t *testing.T) {
	const owner = "ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: train, uid: t1, controller: true}]"
	for plugin, c := range map[string]struct{ group, pods string }{
		"coscheduling": {"scheduling.x-k8s.io/v1alpha1", "labels: {scheduling.x-k8s.io/pod-group: train}"},
		"volcano":      {"scheduling.volcano.sh/v1beta1", "annotations: {scheduling.k8s.io/group-name: train}"},
	} {
		text := `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, uid: js, ` + owner + `}
spec:
  suspend: false
  replicatedJobs:
  - name: node
    replicas: 1
    template: {spec: {parallelism: 2, completions: 2, template: {metadata: {` + c.pods + `}, spec: {containers: [{name: node, resources: {limits: {nvidia.com/gpu: "4"}}}]}}}}
---
apiVersion: ` + c.group + `
kind: PodGroup
metadata: {name: train, ` + owner + `}
spec: {minMember: 2, minResources: {nvidia.com/gpu: "8"}}`
		const want = "train-node~0 4 GPUs JobSet/train in ml/train min 2\ntrain-node~1 4 GPUs JobSet/train in ml/train min 2\n"
		if got := report(world(t, text)); got != want {
			t.Errorf("%s: got\n%swant\n%s", plugin, got, want)
		}
		if got := report(world(t, strings.Replace(text, "suspend: false", "suspend: true", 1))); got != "" {
			t.Errorf("%s, suspended: %s", plugin, got)
		}
	}
}

// condition is a true condition of a Workload.
func condition(kind string) string {
	return fmt.Sprintf(`{type: %s, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}`, kind)
}

// TestKueueElsewhere: a job that Kueue has not admitted yet, or runs in another cluster, is no
// demand of this cluster.
func TestKueueElsewhere(t *testing.T) {
	jobSet := func(managedBy string) string {
		return `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  managedBy: ` + managedBy + `
  replicatedJobs: [{name: w, template: {spec: {parallelism: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}}]`
	}
	const queue = `
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: user-queue}
spec: {clusterQueue: c}`
	const lws = `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec: {leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`
	two := "~0 8 GPUs"
	for name, c := range map[string]struct{ world, want string }{
		"MultiKueue has chosen a cluster": {strings.ReplaceAll(workload("v1beta2", `{clusterName: far, conditions: [`+condition("QuotaReserved")+`]}`), "SUSPEND", "true"), ""},
		"MultiKueue is choosing one":      {strings.ReplaceAll(workload("v1beta2", `{nominatedClusterNames: [a, b], conditions: [`+condition("QuotaReserved")+`]}`), "SUSPEND", "true"), ""},
		"a JobSet of another manager":     {jobSet("kueue.x-k8s.io/multikueue"), ""},
		"a JobSet of its own controller":  {jobSet("jobset.sigs.k8s.io/jobset-controller"), two},
		"queued, and no Workload yet":     {lws + queue, ""},
		"a queue that is not there":       {lws, two},
	} {
		t.Run(name, func(t *testing.T) {
			got := report(world(t, strings.TrimPrefix(c.world, "\n")))
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestKueueGate: a single pod with reserved quota is demand behind Kueue's gate, since the pending
// admission check may wait for its node; behind another gate, or before, it is not.
func TestKueueGate(t *testing.T) {
	for name, c := range map[string]struct {
		gates, status string
		want          bool
	}{
		"reserved":         {`[{name: kueue.x-k8s.io/admission}]`, `{conditions: [` + condition("QuotaReserved") + `]}`, true},
		"not reserved":     {`[{name: kueue.x-k8s.io/admission}]`, `{}`, false},
		"with topology":    {`[{name: kueue.x-k8s.io/admission}, {name: kueue.x-k8s.io/topology}]`, `{conditions: [` + condition("QuotaReserved") + `]}`, true},
		"elastic":          {`[{name: kueue.x-k8s.io/elastic-job}]`, `{conditions: [` + condition("QuotaReserved") + `]}`, true},
		"another gate too": {`[{name: kueue.x-k8s.io/admission}, {name: mine}]`, `{conditions: [` + condition("QuotaReserved") + `]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(t, `apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: pod-a, ownerReferences: [{apiVersion: v1, kind: Pod, name: a, uid: u}]}
spec: {queueName: q, podSets: [{name: main, count: 1, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}]}
status: `+c.status+`
---
kind: Pod
metadata: {name: a, uid: u}
spec: {schedulingGates: `+c.gates+`, containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`)
			if unmade := Join(in); len(unmade) != 0 {
				t.Errorf("to come: %d, and the pod is there", len(unmade))
			}
			if got := in.Pods[0].Plan.Unschedulable; got != c.want {
				t.Errorf("looked at: %v", got)
			}
		})
	}
}

// TestKueueFlavors: pods still to be created have the labels and tolerations that Kueue will add:
// of the flavors assigned to their set, and of completed checks.
func TestKueueFlavors(t *testing.T) {
	in := world(t, `apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
spec: {nodeLabels: {tier: spot}, tolerations: [{key: spot, operator: Exists}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w}
spec: {podSets: [{name: main, count: 1, template: {spec: {nodeSelector: {zone: a}, containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}]}
status:
  conditions: [`+condition("QuotaReserved")+`]
  admission: {clusterQueue: q, podSetAssignments: [{name: main, flavors: {nvidia.com/gpu: spot, cpu: gone}}]}
  admissionChecks:
  - {name: done, state: Ready, podSetUpdates: [{name: main, nodeSelector: {rack: r1}}]}
  - {name: waits, state: Pending, podSetUpdates: [{name: main, nodeSelector: {row: r2}}]}`)
	unmade := Join(in)
	if len(unmade) != 1 {
		t.Fatalf("%d to come", len(unmade))
	}
	spec := unmade[0].Template.Spec
	if fmt.Sprint(spec.NodeSelector) != "map[rack:r1 tier:spot zone:a]" || len(spec.Tolerations) != 1 {
		t.Errorf("node selector %v, tolerations %v", spec.NodeSelector, spec.Tolerations)
	}
	if kept := in.Objects[foreign.KueueWorkload][0].Maker.Roles[0].Template.Spec; kept.NodeSelector["tier"] != "" || len(kept.Tolerations) != 0 {
		t.Errorf("the shared object was written to: %v", kept.NodeSelector)
	}
}

// TestKueueOfATrainJob: Kueue queues a TrainJob, whose controller makes a JobSet for it: its pods are
// demand once.
func TestKueueOfATrainJob(t *testing.T) {
	const template = `{spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}`
	in := world(t, `apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w, ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: train, uid: t, controller: true}]}
spec: {podSets: [{name: node, count: 2, template: `+template+`}]}
status: {conditions: [`+condition("QuotaReserved")+`, `+condition("Admitted")+`], admission: {clusterQueue: q, podSetAssignments: [{name: node}]}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, uid: s, ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: train, uid: t, controller: true}]}
spec: {replicatedJobs: [{name: node, replicas: 1, template: {spec: {parallelism: 2, completions: 2, template: `+template+`}}}]}
---
kind: Pod
metadata: {name: train-node-0-0, labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: node}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`)
	if unmade := Join(in); len(unmade) != 1 || unmade[0].Workload != "w" {
		t.Errorf("one of two pods exists, and to come are %+v", unmade)
	}
	if in.Pods[0].Workload != "w" {
		t.Errorf("the pod is of workload %q", in.Pods[0].Workload)
	}
}

// TestWorkloadOfAnotherNamespace: who may create a Workload in a namespace has no say about objects of another,
// whose UID it names as its owner.
func TestWorkloadOfAnotherNamespace(t *testing.T) {
	in := world(t, `apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: other, name: w, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: j, controller: true}]}
spec: {podSets: [{name: main, count: 2, template: {spec: {containers: [{name: c}]}}}]}
status: {conditions: [`+condition("QuotaReserved")+`]}
---
kind: Pod
metadata: {name: train-0, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: train, uid: j, controller: true}]}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`)
	Join(in)
	if in.Pods[0].Workload != "" || in.Pods[0].Plan.Gang != "" {
		t.Errorf("the pod is of workload %q and gang %q", in.Pods[0].Workload, in.Pods[0].Plan.Gang)
	}
}

// TestPodsOfAnUnreadableGang: while a PodGroup or a maker cannot be read, its pending pods are not taken for
// single ones, and say which field is wrong. Others are not affected.
func TestPodsOfAnUnreadableGang(t *testing.T) {
	const pod = `
kind: Pod
metadata: {name: NAME, labels: {LABELS}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`
	docs := []string{}
	for name, labels := range map[string]string{
		"grouped": "scheduling.x-k8s.io/pod-group: g", "made": "jobset.sigs.k8s.io/jobset-name: js, jobset.sigs.k8s.io/replicatedjob-name: w", "single": "",
	} {
		docs = append(docs, strings.NewReplacer("NAME", name, "LABELS", labels).Replace(pod))
	}
	in := world(t, strings.Join(docs, "\n---"))
	for k, spec := range map[foreign.Kind]map[string]any{
		foreign.PluginsPodGroup: {"minMember": "many"}, foreign.JobSet: {"replicatedJobs": "none"},
	} {
		u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
		u.SetNamespace("ml")
		u.SetName(map[foreign.Kind]string{foreign.PluginsPodGroup: "g", foreign.JobSet: "js"}[k])
		in.Objects[k] = []*foreign.Object{foreign.Parse(k, u)}
	}
	Join(in)
	for _, p := range in.Pods {
		want := map[string]string{"grouped": "ml/g: spec.minMember", "made": "ml/js: spec.replicatedJobs"}[p.Name]
		if got := p.Plan.Unreadable; (want == "") != (got == "") || !strings.Contains(got, want) || p.Plan.Demand.Zero() != (want != "") {
			t.Errorf("%s: %q, want %q", p.Name, got, want)
		}
	}
}

// TestKueueSlicesAndNests: pods of an elastic job may name a replaced slice; pods of a RayJob are
// created by an intermediate object. Neither counts twice.
func TestKueueSlicesAndNests(t *testing.T) {
	slice := func(name, created, status string, count int) string {
		return fmt.Sprintf(`apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: %s, creationTimestamp: %q, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: j, uid: j}]}
spec: {podSets: [{name: main, count: %d, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}]}
status: {conditions: [%s]}
---
`, name, created, count, status)
	}
	text := slice("old", "2026-11-21T09:00:00Z", condition("QuotaReserved")+", "+condition("Finished"), 2) +
		slice("new", "2026-11-21T09:05:00Z", condition("QuotaReserved")+", "+condition("Admitted"), 3) + `kind: Pod
metadata: {name: j, annotations: {kueue.x-k8s.io/workload-slice-name: old, test/replicas: "2"}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`
	if got, want := report(world(t, text)), "2 exist in \"ml/workload/new\" min 3\nnew-main~0 1 GPU Workload/new in ml/workload/new min 3\n"; got != want {
		t.Errorf("slices: got\n%s\nwant\n%s", got, want)
	}
	ray := func(status string) string {
		return `apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: rayjob-r, ownerReferences: [{apiVersion: ray.io/v1, kind: RayJob, name: r, uid: r}]}
spec: {podSets: [{name: workers, count: 1, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}]}
status: {conditions: [` + status + `]}
---
kind: Pod
metadata: {name: r-worker, ownerReferences: [{kind: RayCluster, name: r-x, uid: x, controller: true}]}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`
	}
	for status, want := range map[string]int{condition("QuotaReserved"): 1, condition("QuotaReserved") + ", " + condition("Admitted"): 0} {
		if got := len(Join(world(t, ray(status)))); got != want {
			t.Errorf("a RayJob with %s: %d to come, want %d", status, got, want)
		}
	}
}

// TestHostileNumbers: absurd objects cost little, and no sum overflows.
func TestHostileNumbers(t *testing.T) {
	in := world(t, `apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 3, minResources: {nvidia.com/gpu: "16", memory: "900000000000000000", cpu: "-4", rdma/hca: "10000000000000001"}}`)
	var seen corev1.ResourceList
	in.Convert = func(namespace string, p *corev1.PodTemplateSpec) plan.Pod {
		seen = p.Spec.Containers[0].Resources.Requests
		return convert(namespace, p)
	}
	Join(in)
	const most = mostOfAnything/3 + 1
	if memory, cpu, hca := seen[corev1.ResourceMemory], seen[corev1.ResourceCPU], seen["rdma/hca"]; memory.Value() != most || hca.Value() != most || !cpu.IsZero() {
		t.Errorf("a part of it is %v", seen)
	}
	const sets = `apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: %s}
spec: {replicas: 9999999999, leaderWorkerTemplate: {size: 9999999999, workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`
	in = world(t, fmt.Sprintf(sets, "a")+"\n---\n"+fmt.Sprintf(sets, "b")+"\n---\n"+`apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: a, namespace: zoo}
spec: {replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`)
	converted, left := 0, map[string]int{}
	in.Convert = func(namespace string, p *corev1.PodTemplateSpec) plan.Pod {
		converted++
		return convert(namespace, p)
	}
	in.LeftOut = func(namespace string, pods int) { left[namespace] += pods }
	made := map[string]int{}
	for _, u := range Join(in) {
		made[u.Namespace]++
	}
	// Another namespace has all of its own.
	if made["ml"] != maxUnmade || made["zoo"] != 2 || left["ml"] == 0 || left["zoo"] != 0 || converted > 6 {
		t.Errorf("pods %v, left out %v, %d templates looked at", made, left, converted)
	}
}

// TestHostileSets: sets without a pod that requests a GPU are bounded like pods, by namespace.
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

// TestGroupsOfOneName: which of two systems' groups gets the short name does not depend on the
// order of the pods.
func TestGroupsOfOneName(t *testing.T) {
	const groups = `apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 2}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 2}
---
`
	const a = `kind: Pod
metadata: {name: a, annotations: {scheduling.k8s.io/group-name: g}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`
	const b = `kind: Pod
metadata: {name: b, labels: {scheduling.x-k8s.io/pod-group: g}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`
	one, other := report(world(t, groups+a+"\n---\n"+b)), report(world(t, groups+b+"\n---\n"+a))
	if one != other || !strings.Contains(one, `"ml/g"`) || !strings.Contains(one, `"ml/podgroups.scheduling.x-k8s.io/g"`) {
		t.Errorf("one way\n%sthe other\n%s", one, other)
	}
}
