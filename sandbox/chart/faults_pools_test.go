package chart

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/await"
)

const (
	poolKind = "gpuscale.io/v1alpha1/GPUNodePool"
	crdKind  = "apiextensions.k8s.io/v1/CustomResourceDefinition"
)

// Faults of pools and quotas.
var poolFaults = []fault{
	{
		name:  "a pool whose target does not exist",
		seed:  func(x *trouble) { x.add(ghostPool) },
		check: "pool-problem", objects: []string{"GPUNodePool ghost"}, says: "TargetNotFound",
	},
	{
		name: "two pools over one target",
		seed: func(x *trouble) {
			x.add(herdOf("{disabled: true}") + fmt.Sprintf(herdPool, "the-other", "{disabled: true}"))
		},
		check: "pool-problem", objects: []string{"GPUNodePool the-other"}, says: "TargetShared",
	},
	{
		name:  "a pool that can only grow",
		seed:  func(x *trouble) { x.add(herdOf("{}")) },
		check: "pool-problem", objects: []string{"GPUNodePool herded"}, says: "GrowOnly", typed: true,
	},
	{
		name:  "cluster-autoscaler over a pool's target",
		seed:  func(x *trouble) { x.add(herdOf("{disabled: true}") + clusterAutoscaler) },
		check: "foreign-autoscaler", objects: []string{"GPUNodePool herded"}, says: "--nodes=0:5:herd",
	},
	{
		name: "a pool that was frozen and forgotten", always: true,
		seed:  func(x *trouble) { x.set(poolKind, "", "sliced", true, "spec", "freeze") },
		check: "pool-frozen", objects: []string{"GPUNodePool sliced"}, says: "freeze", typed: true,
	},
	{
		name: "a pool whose nodes cannot be made",
		seed: func(x *trouble) {
			x.add(refusal)
			x.wait("the policy is in force", func() error {
				err := x.Admin.Create(x.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "probe", Labels: map[string]string{v1alpha1.NodePoolLabel: "refused"}}}, client.DryRunAll)
				if err == nil {
					return errNotYet
				}
				return nil
			})
			x.add(refusedPool)
			x.wait("the pool backs off", func() error {
				var p v1alpha1.GPUNodePool
				if err := x.Admin.Get(x.t.Context(), client.ObjectKey{Name: "refused"}, &p); err != nil {
					return await.Final(err)
				}
				if p.Status.Backoff == nil {
					return errors.New(p.Status.Reason)
				}
				return nil
			})
		},
		check: "pool-backoff", objects: []string{"GPUNodePool refused"},
	},
	{
		name:  "a quota under which nothing fits",
		seed:  func(x *trouble) { x.add(tinyQuota) },
		check: "quota-unsatisfiable", objects: []string{"GPUQuota tiny"}, says: "0.05",
	},
	{
		name:  "quotas that are each other's parent",
		seed:  func(x *trouble) { x.add(quotaCycle) },
		check: "quota-cycle", objects: []string{"GPUQuota egg"}, says: "hen", typed: true,
	},
	{
		name:  "a ResourceQuota that counts whole GPUs where slices are asked for",
		seed:  func(x *trouble) { x.add(ration) },
		check: "resourcequota-names", objects: []string{"ResourceQuota ration/gpus"}, says: "nvidia.com/mig-1g.10gb",
		typed: true,
	},
	{
		name: "an old CRD",
		seed: func(x *trouble) {
			x.change(crdKind, "", "gpunodepools.gpuscale.io", func(u *unstructured.Unstructured) {
				versions, _, err := unstructured.NestedSlice(u.Object, "spec", "versions")
				x.must(err)
				unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "interruptionsPerHour")
				rules := []string{"schema", "openAPIV3Schema", "properties", "spec", "x-kubernetes-validations"}
				unstructured.RemoveNestedField(versions[0].(map[string]any), rules...) // one of them is about that field
				x.must(unstructured.SetNestedSlice(u.Object, versions, "spec", "versions"))
			})
		},
		check: "crd-old", objects: []string{"CustomResourceDefinition gpunodepools.gpuscale.io"}, says: "interruptionsPerHour", typed: true,
	},
}

const ghostPool = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: ghost}
spec:
  min: 0
  max: 2
  provider: {scale: {apiVersion: example.org/v1, kind: Herd, namespace: team, name: missing}}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "64", memory: 512Gi}
`

// herdOf is a Herd, and a pool over it with this scaleDown.
func herdOf(scaleDown string) string {
	return `
apiVersion: example.org/v1
kind: Herd
metadata: {name: herd, namespace: team}
spec: {replicas: 0}
` + fmt.Sprintf(herdPool, "herded", scaleDown)
}

// herdPool is a pool over the Herd: its name, and scaleDown.
const herdPool = `---
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: %s}
spec:
  min: 0
  max: 2
  provider: {scale: {apiVersion: example.org/v1, kind: Herd, namespace: team, name: herd}}
  scaleDown: %s
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "64", memory: 512Gi}
`

// clusterAutoscaler has a Herd among its node groups.
const clusterAutoscaler = `---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cluster-autoscaler, namespace: kube-system}
spec:
  selector: {matchLabels: {app: cluster-autoscaler}}
  template:
    metadata: {labels: {app: cluster-autoscaler}}
    spec:
      containers:
      - {name: cluster-autoscaler, image: "cluster-autoscaler:v1.33.0", command: [./cluster-autoscaler, "--nodes=0:5:herd"]}
`

// refusal is a policy that refuses the nodes of one pool.
const refusal = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-nodes}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [nodes]}]
  validations:
  - expression: "!has(object.metadata.labels) || !('gpuscale.io/pool' in object.metadata.labels) || object.metadata.labels['gpuscale.io/pool'] != 'refused'"
    message: no more nodes this year
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-nodes}
spec: {policyName: no-nodes, validationActions: [Deny]}
`

const refusedPool = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: refused}
spec:
  min: 1
  max: 2
  provider: {externalGRPC: {name: kwok, nodeGroup: refused}}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "64", memory: 512Gi}
`

const tinyQuota = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUQuota
metadata: {name: tiny}
spec:
  tenants: {namespaces: [tiny]}
  amounts: [{model: any, limit: "0.05"}]
`

const quotaCycle = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUQuota
metadata: {name: hen}
spec:
  parent: egg
  tenants: {namespaces: [hens]}
  amounts: [{model: any, guaranteed: 1}]
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUQuota
metadata: {name: egg}
spec:
  parent: hen
  tenants: {namespaces: [eggs]}
  amounts: [{model: any, guaranteed: 1}]
`

const ration = `
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpus, namespace: ration}
spec: {hard: {requests.nvidia.com/gpu: "4"}}
---
apiVersion: v1
kind: Pod
metadata: {name: slice, namespace: ration}
spec:
  containers:
  - {name: c, image: c, resources: {limits: {nvidia.com/mig-1g.10gb: "1"}}}
`
