package gangs

import (
	"fmt"
	"strings"
	"testing"
)

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
// volcano) makes beside it are one gang, before any pod exists. The TrainJob owns both.
func TestTrainJob(t *testing.T) {
	const owner = "ownerReferences: [{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, name: train, uid: t1, controller: true}]"
	for plugin, c := range map[string]struct{ group, pods string }{
		"coscheduling": {"scheduling.x-k8s.io/v1alpha1", "labels: {scheduling.x-k8s.io/pod-group: train}"},
		"volcano":      {"scheduling.volcano.sh/v1beta1", "annotations: {scheduling.k8s.io/group-name: train}"},
	} {
		got := report(world(t, `apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, uid: js, `+owner+`}
spec:
  replicatedJobs:
  - name: node
    replicas: 1
    template: {spec: {parallelism: 2, completions: 2, template: {metadata: {`+c.pods+`}, spec: {containers: [{name: node, resources: {limits: {nvidia.com/gpu: "4"}}}]}}}}
---
apiVersion: `+c.group+`
kind: PodGroup
metadata: {name: train, `+owner+`}
spec: {minMember: 2, minResources: {nvidia.com/gpu: "8"}}`))
		const want = "train-node~0 4 GPUs JobSet/train in ml/train min 2\ntrain-node~1 4 GPUs JobSet/train in ml/train min 2\n"
		if got != want {
			t.Errorf("%s: got\n%swant\n%s", plugin, got, want)
		}
	}
}
