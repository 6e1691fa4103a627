package gangs

import (
	"strings"
	"testing"
)

const gpuPod = `
    spec:
      containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]`

// rayGroup is what KubeRay makes for a RayCluster of a head and two workers, with Volcano.
const rayGroup = `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: ray-train-pg, ownerReferences: [{apiVersion: ray.io/v1, kind: RayCluster, name: train, uid: r, controller: true}]}
spec: {minMember: 3, minResources: {nvidia.com/gpu: "16", cpu: "3"}}
status: {phase: Pending}`

// provisioning is a PodTemplate, and the beginning of a ProvisioningRequest.
var provisioning = provisioningOf("{name: train}")

func provisioningOf(metadata string) string {
	return `
apiVersion: v1
kind: PodTemplate
metadata: {name: worker}
template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}
---
apiVersion: autoscaling.x-k8s.io/v1
kind: ProvisioningRequest
metadata: ` + metadata
}

// TestKinds: how each API groups pods, in the form of its documentation.
func TestKinds(t *testing.T) {
	for name, c := range map[string]struct{ world, want string }{
		"a Volcano PodGroup whose pods are not enqueued": {world: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 2, queue: q, minResources: {nvidia.com/gpu: "16", cpu: "3"}}
status: {phase: Pending}`, want: `
train~0 8 GPUs PodGroup/train in ml/train min 2
train~1 8 GPUs PodGroup/train in ml/train min 2`},
		"minResources with Volcano's prefixes": {world: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 2, minResources: {requests.nvidia.com/gpu: "3", limits.nvidia.com/gpu: "3", count/pods: "2"}}`, want: `
train~0 2 GPUs PodGroup/train in ml/train min 2
train~1 2 GPUs PodGroup/train in ml/train min 2`},
		"a completed PodGroup is no gang": {world: `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 2, minResources: {nvidia.com/gpu: "16"}}
status: {phase: Completed}`, want: ``},
		"a suspended RayCluster, whose PodGroup KubeRay leaves as it was": {world: rayGroup, want: ``},
		"of a RayCluster the pods that exist": {world: rayGroup + `
---
kind: Pod
metadata: {name: head, annotations: {scheduling.k8s.io/group-name: ray-train-pg}, ownerReferences: [{kind: RayCluster, name: train, uid: r, controller: true}]}
spec: {containers: [{name: c}]}
---
kind: Pod
metadata: {name: worker, annotations: {scheduling.k8s.io/group-name: ray-train-pg}, ownerReferences: [{kind: RayCluster, name: train, uid: r, controller: true}]}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}`, want: `
1 exist in "ml/ray-train-pg" min 2`},
		"a suspended Job, whose PodGroup Volcano made": {world: strings.ReplaceAll(rayGroup, "{apiVersion: ray.io/v1, kind: RayCluster,", "{apiVersion: batch/v1, kind: Job,"), want: ``},
		"a Volcano Job's tasks, its PodGroup and a CPU-only master": {world: `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mpi, uid: j1}
spec:
  minAvailable: 3
  tasks:
  - {name: master, replicas: 1, template: {spec: {containers: [{name: c}]}}}
  - name: worker
    replicas: 2
    template:` + indent(gpuPod) + `
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: mpi-j1, ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mpi, uid: j1}]}
spec: {minMember: 3, minResources: {nvidia.com/gpu: "16"}}`, want: `
mpi-worker~0 8 GPUs Job/mpi in ml/mpi-j1 min 2
mpi-worker~1 8 GPUs Job/mpi in ml/mpi-j1 min 2`},
		"its pods fulfil their places": {world: `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mpi, uid: j1}
spec:
  minAvailable: 2
  tasks:
  - name: worker
    replicas: 2
    template:` + indent(gpuPod) + `
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: mpi-j1, ownerReferences: [{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mpi, uid: j1}]}
spec: {minMember: 2}
---
kind: Pod
metadata:
  name: mpi-worker-0
  annotations: {scheduling.k8s.io/group-name: mpi-j1, volcano.sh/job-name: mpi, volcano.sh/task-spec: worker}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}`, want: `
1 exist in "ml/mpi-j1" min 2
mpi-worker~0 8 GPUs Job/mpi in ml/mpi-j1 min 2`},
		"a ProvisioningRequest": {world: provisioning + `
spec:
  provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io
  podSets: [{count: 2, podTemplateRef: {name: worker}}]`, want: `
train-0~0 8 GPUs ProvisioningRequest/train in ml/provisioningrequest/train min 2
train-0~1 8 GPUs ProvisioningRequest/train in ml/provisioningrequest/train min 2`},
		"a ProvisioningRequest that only checks": {world: provisioning + `
spec:
  provisioningClassName: check-capacity.autoscaling.x-k8s.io
  podSets: [{count: 2, podTemplateRef: {name: worker}}]`, want: ``},
		"a ProvisioningRequest whose booking has expired": {world: provisioning + `
spec:
  provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io
  podSets: [{count: 2, podTemplateRef: {name: worker}}]
status: {conditions: [{type: BookingExpired, status: "True"}]}`, want: ``},
		"a ProvisioningRequest that a pod uses": {world: provisioning + `
spec:
  provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io
  podSets: [{count: 2, podTemplateRef: {name: worker}}]
---
kind: Pod
metadata: {name: a, annotations: {autoscaling.x-k8s.io/consume-provisioning-request: train}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}`, want: `1 exist in "" min 0`},
		"a ProvisioningRequest that a Workload made": {world: `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: w, uid: w1}
spec: {podSets: [{name: main, count: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}]}
status: {conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}]}
---` + provisioningOf("{name: train, ownerReferences: [{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, name: w, uid: w1, controller: true}]}") + `
spec:
  provisioningClassName: best-effort-atomic-scale-up.autoscaling.x-k8s.io
  podSets: [{count: 2, podTemplateRef: {name: worker}}]`, want: `
w-main~0 8 GPUs Workload/w in ml/workload/w min 2
w-main~1 8 GPUs Workload/w in ml/workload/w min 2`},
		"a PyTorchJob is a gang of all its replicas": {world: `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train, uid: t1}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: pytorch, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: pytorch, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}
---
kind: Pod
metadata:
  name: train-worker-0
  labels: {training.kubeflow.org/job-name: train, training.kubeflow.org/replica-type: worker}
  ownerReferences: [{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: train, uid: t1, controller: true}]
spec: {containers: [{name: pytorch, resources: {limits: {nvidia.com/gpu: "8"}}}]}`, want: `
1 exist in "ml/pytorchjob/train" min 3
train-master~0 8 GPUs PyTorchJob/train in ml/pytorchjob/train min 3
train-worker~0 8 GPUs PyTorchJob/train in ml/pytorchjob/train min 3`},
		"minAvailable of a TFJob, without its CPU-only servers": {world: `
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: train}
spec:
  runPolicy: {schedulingPolicy: {minAvailable: 3}}
  tfReplicaSpecs:
    PS: {replicas: 1, template: {spec: {containers: [{name: tensorflow}]}}}
    Worker: {replicas: 3, template: {spec: {containers: [{name: tensorflow, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}`, want: `
train-worker~0 1 GPU TFJob/train in ml/tfjob/train min 2
train-worker~1 1 GPU TFJob/train in ml/tfjob/train min 2
train-worker~2 1 GPU TFJob/train in ml/tfjob/train min 2`},
		"an elastic PyTorchJob needs its minReplicas": {world: `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  elasticPolicy: {minReplicas: 2, maxReplicas: 4}
  pytorchReplicaSpecs:
    Worker: {replicas: 3, template: {spec: {containers: [{name: pytorch, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}`, want: `
train-worker~0 1 GPU PyTorchJob/train in ml/pytorchjob/train min 2
train-worker~1 1 GPU PyTorchJob/train in ml/pytorchjob/train min 2
train-worker~2 1 GPU PyTorchJob/train in ml/pytorchjob/train min 2`},
		"an MPIJob's launcher is a Job's pod": {world: `
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {name: mpi}
spec:
  mpiReplicaSpecs:
    Launcher: {replicas: 1, template: {spec: {containers: [{name: c}]}}}
    Worker: {replicas: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}
---
kind: Pod
metadata:
  name: mpi-launcher-x
  labels: {training.kubeflow.org/job-name: mpi, training.kubeflow.org/job-role: launcher}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: mpi-launcher, uid: j, controller: true}]
spec: {containers: [{name: c}]}`, want: `
mpi-worker~0 8 GPUs MPIJob/mpi in ml/mpijob/mpi min 2
mpi-worker~1 8 GPUs MPIJob/mpi in ml/mpijob/mpi min 2`},
		"a suspended, a finished and another cluster's PyTorchJob are no demand": {world: `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: a}
spec:
  runPolicy: {suspend: true}
  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: b}
spec:
  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}}
status: {conditions: [{type: Succeeded, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}]}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: c}
spec:
  runPolicy: {managedBy: kueue.x-k8s.io/multikueue}
  pytorchReplicaSpecs: {Worker: {replicas: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}}`, want: ``},
		"scheduler-plugins, members like those that exist": {world: `
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: nginx}
spec: {minMember: 3, scheduleTimeoutSeconds: 10}
---
kind: Pod
metadata:
  name: nginx
  labels: {scheduling.x-k8s.io/pod-group: nginx}
  annotations: {test/replicas: "2"}
  ownerReferences: [{kind: ReplicaSet, name: nginx, uid: r, controller: true}]
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`, want: `
2 exist in "ml/nginx" min 3
nginx~0 1 GPU PodGroup/nginx in ml/nginx min 3`},
		"scheduler-plugins, members of several owners: the shape is unknown": {world: `
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: nginx}
spec: {minMember: 3}
---
kind: Pod
metadata: {name: a, labels: {scheduling.x-k8s.io/pod-group: nginx}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`, want: `
1 exist in "ml/nginx" min 3`},
		"Kubernetes' own PodGroup": {world: `
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: pg}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
kind: Pod
metadata: {name: a, annotations: {test/replicas: "2"}}
spec:
  schedulingGroup: {podGroupName: pg}
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]`, want: `
2 exist in "ml/pg" min 2`},
		"Kubernetes' own PodGroup of the basic policy is no gang": {world: `
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: pg}
spec: {schedulingPolicy: {basic: {}}}
---
kind: Pod
metadata: {name: a}
spec:
  schedulingGroup: {podGroupName: pg}
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]`, want: `
1 exist in "" min 0`},
		"KAI": {world: `
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: pg}
spec: {minMember: 2, queue: team}
---
kind: Pod
metadata: {name: a, annotations: {pod-group-name: pg, test/replicas: "2"}}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`, want: `
2 exist in "ml/pg" min 2`},
		"a JobSet whose second job waits for the first": {world: `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  startupPolicy: {startupPolicyOrder: InOrder}
  replicatedJobs:
  - {name: driver, replicas: 1, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}
  - name: workers
    replicas: 2
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}
---
kind: Pod
metadata: {name: train-driver-0-0, labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: driver}}
spec: {containers: [{name: c}]}`, want: `
train-workers~0 8 GPUs JobSet/train in ml/jobset/train min 4
train-workers~1 8 GPUs JobSet/train in ml/jobset/train min 4
train-workers~2 8 GPUs JobSet/train in ml/jobset/train min 4
train-workers~3 8 GPUs JobSet/train in ml/jobset/train min 4`},
		"a JobSet's job that only runs once another has ended": {world: `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  replicatedJobs:
  - {name: prepare, replicas: 1, template: {spec: {template: {spec: {containers: [{name: c}]}}}}}
  - name: workers
    dependsOn: [{name: prepare, status: Complete}]
    template: {spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`, want: ``},
		"a suspended JobSet": {world: `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train}
spec:
  suspend: true
  replicatedJobs:
  - name: workers
    template: {spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`, want: ``},
		"a LeaderWorkerSet whose workers wait for their leader": {world: `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: vllm}
spec:
  replicas: 2
  startupPolicy: LeaderReady
  leaderWorkerTemplate:
    size: 2
    workerTemplate: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}
---
kind: Pod
metadata:
  name: vllm-0
  labels: {leaderworkerset.sigs.k8s.io/name: vllm, leaderworkerset.sigs.k8s.io/group-index: "0", leaderworkerset.sigs.k8s.io/worker-index: "0"}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}
---
kind: Pod
metadata:
  name: vllm-1
  labels: {leaderworkerset.sigs.k8s.io/name: vllm, leaderworkerset.sigs.k8s.io/group-index: "1", leaderworkerset.sigs.k8s.io/worker-index: "0"}
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}`, want: `
1 exist in "ml/lws/vllm/0" min 2
1 exist in "ml/lws/vllm/1" min 2
vllm-0-worker~0 8 GPUs LeaderWorkerSet/vllm in ml/lws/vllm/0 min 2
vllm-1-worker~0 8 GPUs LeaderWorkerSet/vllm in ml/lws/vllm/1 min 2`},
		"an HPA's replicas that a quota keeps from being made": {world: `
apiVersion: apps/v1
kind: Deployment
metadata: {name: vllm}
spec: {replicas: 3, template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: vllm}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}}
status: {desiredReplicas: 5, currentReplicas: 1}
---
kind: Pod
metadata:
  name: vllm-abc-x
  labels: {pod-template-hash: abc}
  ownerReferences: [{kind: ReplicaSet, name: vllm-abc, uid: r, controller: true}]
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}`, want: `
1 exist in "" min 0
vllm~0 1 GPU Deployment/vllm
vllm~1 1 GPU Deployment/vllm`},
		"an HPA that has lost its metrics wants nothing new": {world: `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: vllm}
spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: vllm}
spec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: vllm}}
status: {desiredReplicas: 3, conditions: [{type: ScalingActive, status: "False"}]}`, want: ``},
	} {
		t.Run(name, func(t *testing.T) {
			if got, want := strings.TrimSpace(report(world(t, strings.TrimPrefix(c.world, "\n")))), strings.TrimSpace(c.want); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func indent(s string) string { return strings.ReplaceAll(s, "\n    ", "\n      ") }

// workload is a Kueue Workload of two pods of eight GPUs, for a JobSet.
func workload(version, status string) string {
	return `apiVersion: kueue.x-k8s.io/` + version + `
kind: Workload
metadata: {name: jobset-train-1, labels: {kueue.x-k8s.io/job-uid: js}, ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: train, uid: js}]}
spec:
  queueName: user-queue
  podSets:
  - name: workers
    count: 2
    template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}
status: ` + status + `
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, uid: js, labels: {kueue.x-k8s.io/queue-name: user-queue}}
spec:
  suspend: SUSPEND
  replicatedJobs:
  - name: workers
    replicas: 2
    template: {spec: {template: {spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}}}}`
}

const jobSetPod = `
---
kind: Pod
metadata:
  name: train-workers-0-0
  labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: workers}
  ownerReferences: [{kind: Job, name: train-workers-0, uid: job0, controller: true}]
spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: "8"}}}]}`

// TestKueue: a Workload is demand once its quota is reserved, and counts once, beside the demand of
// the object it queues.
func TestKueue(t *testing.T) {
	const reserved = `{admission: {clusterQueue: team}, conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}]}`
	two := `
jobset-train-1-workers~0 8 GPUs Workload/jobset-train-1 in ml/workload/jobset-train-1 min 2
jobset-train-1-workers~1 8 GPUs Workload/jobset-train-1 in ml/workload/jobset-train-1 min 2`
	for name, c := range map[string]struct{ status, suspend, pods, want string }{
		"waits for its quota":   {`{}`, "true", "", ``},
		"quota reserved":        {reserved, "true", "", two},
		"admitted, no pod yet":  {reserved, "false", "", two},
		"one of two pods there": {reserved, "false", jobSetPod, "1 exist in \"ml/workload/jobset-train-1\" min 2\njobset-train-1-workers~0 8 GPUs Workload/jobset-train-1 in ml/workload/jobset-train-1 min 2"},
		"one has ended": {`{reclaimablePods: [{name: workers, count: 1}], conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}]}`,
			"false", jobSetPod, `1 exist in "" min 0`},
		"finished": {`{conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m},
  {type: Finished, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}]}`, "false", "", ``},
		"evicted": {`{conditions: [{type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m},
  {type: Evicted, status: "True", lastTransitionTime: "2026-11-21T09:00:00Z", reason: r, message: m}]}`, "true", "", ``},
	} {
		for _, version := range []string{"v1beta1", "v1beta2"} {
			t.Run(name+" "+version, func(t *testing.T) {
				text := strings.ReplaceAll(workload(version, c.status), "SUSPEND", c.suspend) + c.pods
				if got, want := strings.TrimSpace(report(world(t, text))), strings.TrimSpace(c.want); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}
