package gangs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

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
