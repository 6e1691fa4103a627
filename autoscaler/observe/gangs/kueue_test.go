package gangs

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

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
