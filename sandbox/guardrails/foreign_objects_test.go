package guardrails

// neighbourWorld is there before the neighbours are.
const neighbourWorld = `
apiVersion: v1
kind: Namespace
metadata: {name: ml}
---
apiVersion: v1
kind: Namespace
metadata: {name: queued}
---
apiVersion: v1
kind: Namespace
metadata: {name: batch}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: h100}
spec:
  min: 0
  max: 20
  provider: {externalGRPC: {name: kwok, nodeGroup: h100}}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "96", memory: 1Ti}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUQuota
metadata: {name: ml-team}
spec:
  tenants: {namespaces: [ml]}
  amounts: [{model: any, guaranteed: 50, limit: 50}]
`

// neighbourObjects are written as the projects' own documents write them, but for
// the GPUs they ask for.
const neighbourObjects = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default-flavor}
spec:
  nodeLabels: {gpuscale.io/pool: h100}
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: cluster-queue}
spec:
  namespaceSelector: {}
  cohort: all
  resourceGroups:
  - coveredResources: ["cpu", "memory", "nvidia.com/gpu"]
    flavors:
    - name: default-flavor
      resources:
      - {name: cpu, nominalQuota: 9}
      - {name: memory, nominalQuota: 36Gi}
      - {name: nvidia.com/gpu, nominalQuota: 9}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {namespace: queued, name: user-queue}
spec: {clusterQueue: cluster-queue}
---
# As Kueue makes it for a Job, quota reserved.
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: queued, name: job-sample-1}
spec:
  active: true
  queueName: user-queue
  podSets:
  - name: main
    count: 3
    template:
      spec:
        restartPolicy: Never
        containers:
        - name: dummy-job
          image: example/job
          resources: {requests: {nvidia.com/gpu: "1"}, limits: {nvidia.com/gpu: "1"}}
status:
  admission:
    clusterQueue: cluster-queue
    podSetAssignments:
    - {name: main, count: 3, flavors: {nvidia.com/gpu: default-flavor}, resourceUsage: {nvidia.com/gpu: "3"}}
  conditions:
  - {type: QuotaReserved, status: "True", reason: QuotaReserved, message: Quota reserved, lastTransitionTime: "2026-11-21T09:00:00Z"}
---
# The same without quota: not demand yet.
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {namespace: queued, name: job-sample-2}
spec:
  queueName: user-queue
  podSets:
  - name: main
    count: 3
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: dummy-job, image: example/job, resources: {requests: {nvidia.com/gpu: "8"}, limits: {nvidia.com/gpu: "8"}}}
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {namespace: ml, name: pytorch}
spec:
  replicatedJobs:
  - name: workers
    replicas: 1
    template:
      spec:
        parallelism: 2
        completions: 2
        backoffLimit: 0
        template:
          spec:
            containers:
            - {name: pytorch, image: example/pytorch, resources: {limits: {nvidia.com/gpu: "8"}}}
---
# The one of its pods that there is already.
apiVersion: v1
kind: Pod
metadata:
  namespace: ml
  name: pytorch-workers-0-0-abcde
  labels: {jobset.sigs.k8s.io/jobset-name: pytorch, jobset.sigs.k8s.io/replicatedjob-name: workers, jobset.sigs.k8s.io/job-index: "0"}
spec:
  containers:
  - {name: pytorch, image: example/pytorch, resources: {limits: {nvidia.com/gpu: "8"}}}
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {namespace: ml, name: vllm}
spec:
  replicas: 1
  leaderWorkerTemplate:
    size: 2
    restartPolicy: RecreateGroupOnPodRestart
    leaderTemplate:
      metadata: {labels: {role: leader}}
      spec:
        containers:
        - {name: vllm-leader, image: example/vllm, resources: {limits: {nvidia.com/gpu: "8", memory: 124Gi}}}
    workerTemplate:
      spec:
        containers:
        - {name: vllm-worker, image: example/vllm, resources: {limits: {nvidia.com/gpu: "8", memory: 124Gi}}}
---
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {namespace: ml, name: nginx}
spec: {scheduleTimeoutSeconds: 10, minMember: 2}
---
apiVersion: v1
kind: Pod
metadata: {namespace: ml, name: nginx-a, labels: {app: nginx, scheduling.x-k8s.io/pod-group: nginx}}
spec:
  containers:
  - {name: nginx, image: example/nginx, resources: {limits: {nvidia.com/gpu: "1"}}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: ml, name: nginx-b, labels: {app: nginx, scheduling.x-k8s.io/pod-group: nginx}}
spec:
  containers:
  - {name: nginx, image: example/nginx, resources: {limits: {nvidia.com/gpu: "1"}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {namespace: ml, name: volcano}
spec: {minMember: 2, minResources: {cpu: "2", nvidia.com/gpu: "16"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {reclaimable: true, capability: {cpu: "64", nvidia.com/gpu: "8"}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {namespace: batch, name: volcano}
spec: {minMember: 2, minResources: {cpu: "2", nvidia.com/gpu: "16"}, queue: research}
---
# Kubernetes' own.
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {namespace: ml, name: own}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: ml, name: own-0}
spec:
  schedulingGroup: {podGroupName: own}
  containers:
  - {name: c, image: example/c, resources: {limits: {nvidia.com/gpu: "8"}}}
---
apiVersion: v1
kind: Pod
metadata: {namespace: ml, name: own-1}
spec:
  schedulingGroup: {podGroupName: own}
  containers:
  - {name: c, image: example/c, resources: {limits: {nvidia.com/gpu: "8"}}}
`
