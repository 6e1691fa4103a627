package chart

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// slicedNode is the node of pool sliced.
const slicedNode = "sliced-1"

// What nodes have.
var nodeFaults = []fault{
	{
		name:  "mig-manager has failed",
		seed:  func(x *trouble) { x.change("v1/Node", "", slicedNode, mark(migState("failed"), nil)) },
		check: "mig-config-failed", objects: []string{"Node " + slicedNode}, says: "failed",
	},
	{
		name:  "mig-manager hangs",
		seed:  func(x *trouble) { x.pendingSince(slicedNode, time.Now().Add(-2*time.Hour)) },
		check: "mig-manager-wedged", objects: []string{"Node " + slicedNode}, says: "pending",
	},
	{
		name: "a cordon of ours that nothing stands behind", always: true,
		seed: func(x *trouble) {
			x.add(fmt.Sprintf(gpuNode, "left-1", `"1"`, product))
			x.change("v1/Node", "", "left-1", func(u *unstructured.Unstructured) {
				mark(nil, map[string]string{"gpuscale.io/repartition": "truncated"})(u)
				x.must(unstructured.SetNestedField(u.Object, true, "spec", "unschedulable"))
			})
		},
		check: "orphan-cordon", objects: []string{"Node left-1"}, says: "gpuscale.io/repartition", typed: true,
	},
	{
		name:  "a node with GPUs and no device plugin",
		seed:  func(x *trouble) { x.add(fmt.Sprintf(gpuNode, "mute-1", `"0"`, product)) },
		check: "device-plugin-missing", objects: []string{"Node mute-1"}, says: "nvidia.com/gpu",
	},
	{
		name:  "a node whose GPUs have no product",
		seed:  func(x *trouble) { x.add(fmt.Sprintf(gpuNode, "plain-1", `"1"`, "")) },
		check: "gfd-labels-missing", objects: []string{"Node plain-1"}, says: "nvidia.com/gpu.product",
	},
	{
		name: "a node on which the exporter was turned off",
		seed: func(x *trouble) {
			x.add(fmt.Sprintf(gpuNode, "dark-1", `"1"`, product+`, nvidia.com/gpu.deploy.dcgm-exporter: "false"`))
		},
		check: "exporter-missing", objects: []string{"Node dark-1"}, says: "nvidia.com/gpu.deploy.dcgm-exporter", typed: true,
	},
	{
		name:  "the same GPUs by DRA and by the device plugin",
		seed:  func(x *trouble) { x.add(resourceSlice) },
		check: "dra-and-device-plugin", objects: []string{"Node whole-1"}, says: "gpu.nvidia.com",
	},
	{
		name:  "a pod that asks for a profile that no pool can give",
		seed:  func(x *trouble) { x.add(impossible) },
		check: "profile-impossible", objects: []string{"Pod team/too-large"}, says: "mig-1g.5gb",
	},
	{
		name:  "dcgm-exporter beside ours",
		seed:  func(x *trouble) { x.add(dcgmExporter) },
		check: "two-exporters", objects: []string{"DaemonSet gpu-operator/nvidia-dcgm-exporter"}, says: "whole-1",
	},
}

func migState(state string) map[string]string {
	return map[string]string{"nvidia.com/mig.config.state": state}
}

// pendingSince sets mig-manager's state on a node, dated as given: in the managed
// fields of the API server. The API server drops a change of times alone, so that
// another field changes along.
func (x *trouble) pendingSince(node string, since time.Time) {
	x.t.Helper()
	x.keep("v1/Node", "", node)
	x.update("v1/Node", "", node, mark(migState("pending"), nil), client.FieldOwner("mig-manager"))
	x.update("v1/Node", "", node, func(u *unstructured.Unstructured) {
		mark(nil, map[string]string{"example.org/looked-at": "true"})(u)
		fields := u.GetManagedFields()
		for i := range fields {
			if fields[i].Manager == "mig-manager" {
				fields[i].Time = &metav1.Time{Time: since}
			}
		}
		u.SetManagedFields(fields)
	})
}

// product is the label that GPU feature discovery puts on a node.
const product = "nvidia.com/gpu.product: " + product100 + `, nvidia.com/gpu.count: "1"`

// gpuNode is one of no pool: its name, GPUs, more labels.
const gpuNode = `
apiVersion: v1
kind: Node
metadata:
  name: %s
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {nvidia.com/gpu.present: "true", %[3]s}
status:
  capacity: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: %[2]s}
  allocatable: {cpu: "64", memory: 256Gi, pods: "110", nvidia.com/gpu: %[2]s}
`

const resourceSlice = `
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: whole-1-gpu.nvidia.com}
spec:
  driver: gpu.nvidia.com
  nodeName: whole-1
  pool: {name: whole-1, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
`

const impossible = `
apiVersion: v1
kind: Pod
metadata: {name: too-large, namespace: team}
spec:
  containers:
  - {name: c, image: c, resources: {limits: {nvidia.com/mig-1g.5gb: "1"}}}
`

// dcgmExporter is the GPU Operator's, on the nodes of pool whole.
const dcgmExporter = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-dcgm-exporter, namespace: gpu-operator}
spec:
  selector: {matchLabels: {app: nvidia-dcgm-exporter}}
  template:
    metadata: {labels: {app: nvidia-dcgm-exporter}}
    spec:
      nodeSelector: {gpuscale.io/pool: whole}
      containers: [{name: nvidia-dcgm-exporter, image: dcgm-exporter}]
`
