package chart

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// Guardrails of a namespace that its pods with GPUs do not pass.
var tenantFaults = []fault{
	{
		name: "a LimitRange's maximum, which is the default of each container, too", always: true,
		seed:  func(x *trouble) { x.add(eightForAll) },
		check: "limitrange-gpus", objects: []string{"LimitRange team/gpus"}, says: "spec.limits[0].default has nvidia.com/gpu: 8", typed: true,
	},
	{
		name:  "a workload whose pods a LimitRange refuses",
		seed:  func(x *trouble) { x.add(tooLarge) },
		check: "pods-refused", objects: []string{"StatefulSet large/large"}, says: "maximum nvidia.com/gpu usage per Container is 2, but limit is 4",
	},
	{
		name: "a namespace that enforces more than its pods keep",
		seed: func(x *trouble) {
			x.add(loosePod)
			x.change("v1/Namespace", "", "loose", func(u *unstructured.Unstructured) {
				u.SetLabels(map[string]string{"pod-security.kubernetes.io/enforce": "baseline"})
			})
		},
		check: "pod-security", objects: []string{"Namespace loose"}, says: "violated by loose: host namespaces (hostIPC=true)",
	},
	{
		name:  "a NetworkPolicy that keeps Prometheus out",
		seed:  func(x *trouble) { x.add(closedPods) },
		check: "networkpolicy-scrape", objects: []string{"HorizontalPodAutoscaler closed/closed"}, says: "NetworkPolicies deny-all select pod closed-",
		brings: []string{"hpa-inactive"},
	},
}

const eightForAll = `
apiVersion: v1
kind: LimitRange
metadata: {name: gpus, namespace: team}
spec: {limits: [{type: Container, max: {nvidia.com/gpu: "8"}}]}
`

const tooLarge = `
apiVersion: v1
kind: Namespace
metadata: {name: large}
---
apiVersion: v1
kind: LimitRange
metadata: {name: gpus, namespace: large}
spec: {limits: [{type: Container, default: {nvidia.com/gpu: "0"}, max: {nvidia.com/gpu: "2"}}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: large, namespace: large}
spec:
  serviceName: large
  selector: {matchLabels: {app: large}}
  template:
    metadata: {labels: {app: large}}
    spec: {containers: [{name: c, image: c, resources: {limits: {nvidia.com/gpu: "4"}}}]}
`

const loosePod = `
apiVersion: v1
kind: Namespace
metadata: {name: loose}
---
apiVersion: v1
kind: Pod
metadata: {name: loose, namespace: loose}
spec: {schedulerName: none, hostIPC: true, containers: [{name: c, image: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}
`

const closedPods = `
apiVersion: v1
kind: Namespace
metadata: {name: closed}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny-all, namespace: closed}
spec: {podSelector: {}, policyTypes: [Ingress]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: closed, namespace: closed}
spec:
  selector: {matchLabels: {app: closed}}
  template:
    metadata: {labels: {app: closed}}
    spec: {schedulerName: none, containers: [{name: c, image: c, resources: {limits: {nvidia.com/gpu: "1"}}}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: closed, namespace: closed}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: closed}
  maxReplicas: 2
  metrics: [{type: Pods, pods: {metric: {name: gpu_busy}, target: {type: AverageValue, averageValue: 500m}}}]
`
