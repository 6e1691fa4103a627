package chart

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// metalCluster is self-managed: its Machines join the cluster that has them.
const metalCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {namespace: guests, name: main}
spec:
  controlPlaneEndpoint: {host: 127.0.0.1, port: 6443}
  controlPlaneRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MetalControlPlane, name: main}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: MetalControlPlane
metadata: {namespace: guests, name: main}
spec: {version: v1.37.1}
status: {version: v1.37.1, initialization: {controlPlaneInitialized: true}}
---
apiVersion: v1
kind: Secret
metadata: {namespace: guests, name: main-kubeconfig, labels: {cluster.x-k8s.io/cluster-name: main}}
type: cluster.x-k8s.io/secret
data: {value: %s}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: MetalMachineTemplate
metadata: {namespace: guests, name: h100}
spec: {template: {spec: {}}}
`

// machineDeployment is docs/pools.md's.
const machineDeployment = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineDeployment
metadata: {namespace: guests, name: h100}
spec:
  clusterName: main
  replicas: 1
  selector:
    matchLabels: {cluster.x-k8s.io/deployment-name: h100}
  template:
    metadata:
      labels:
        cluster.x-k8s.io/deployment-name: h100
        gpuscale.io/pool: capi-h100
    spec:
      clusterName: main
      version: v1.37.1
      bootstrap: {dataSecretName: h100-bootstrap}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MetalMachineTemplate, name: h100}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: capi-h100}
spec:
  min: 1
  max: 8
  provider:
    scale: {apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineDeployment, namespace: guests, name: h100}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "192", memory: 2000Gi}
  pricePerHour: "40"
  scaleDown: {idleAfter: 1s}
`

const machinePool = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: MetalMachinePool
metadata: {namespace: guests, name: spot}
spec: {nodeLabels: {gpuscale.io/pool: capi-spot}}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: MachinePool
metadata: {namespace: guests, name: spot}
spec:
  clusterName: main
  replicas: 1
  template:
    spec:
      clusterName: main
      version: v1.37.1
      bootstrap: {dataSecretName: h100-bootstrap}
      infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: MetalMachinePool, name: spot}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: capi-spot}
spec:
  min: 1
  max: 8
  provider:
    scale: {apiVersion: cluster.x-k8s.io/v1beta2, kind: MachinePool, namespace: guests, name: spot}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "192", memory: 2000Gi}
  pricePerHour: "40"
  scaleDown: {idleAfter: 1s}
`

// TestNeighbourClusterAPI: a MachineDeployment grows by exactly the nodes that pods need, though
// they come with the taint of uninitialized nodes, and the free ones of them go, by name. A
// MachinePool grows and keeps its nodes.
func TestNeighbourClusterAPI(t *testing.T) {
	x, b := begin(t)
	x.must(b.Create(t.Context(), neighbours.MetalCRDs()))
	kubeconfig, err := os.ReadFile(b.Cluster.Kubeconfig())
	x.must(err)
	x.install(project{Neighbour: build.ClusterAPI, program: "core", dir: "core/config/default", namespace: "capi-system", service: "capi-webhook-service"}, func(hook, certs string) proc.Spec {
		return proc.Spec{Args: []string{
			"--webhook-port=" + hook, "--webhook-cert-dir=" + certs, "--health-addr=" + address(t), "--diagnostics-address=" + address(t), "--insecure-diagnostics",
			"--skip-crd-migration-phases=All", `--additional-sync-machine-labels=^gpuscale\.io/pool$`,
		}}
	})
	b.reinstalled(t, "--set", "autoscaler.pools.clusterAPI=true", "--set", "autoscaler.config.policy.scaleDownCooldown=1s")
	machines := &neighbours.Metal{Client: b.Admin, Nodes: neighbours.Nodes{
		Offers: corev1.ResourceList{
			"nvidia.com/gpu": resource.MustParse("8"), corev1.ResourceCPU: resource.MustParse("192"),
			corev1.ResourceMemory: resource.MustParse("2000Gi"), corev1.ResourcePods: resource.MustParse("110"),
		},
		Labels: map[string]string{"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error, 1)
	go func() { failed <- machines.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-failed; err != nil {
			t.Error(err)
		}
	})
	x.add(fmt.Sprintf(metalCluster, base64.StdEncoding.EncodeToString(kubeconfig)))
	t.Run("MachineDeployment", func(t *testing.T) {
		x := &tale{trouble{env: b, t: t}}
		most := x.most(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeployment"}, "h100", "spec", "replicas")
		x.add(machineDeployment)
		x.wait("the first node", func() error { return x.nodes(t.Context(), "capi-h100", 1) })
		x.gpuPods("capi-h100", 8, "a", "b", "c")
		x.wait("a node for each pod", func() error { return x.nodes(t.Context(), "capi-h100", 3) })
		x.wait("all pods run", func() error { return x.running("a", "b", "c") })
		if n := most(); n != 3 {
			t.Errorf("the MachineDeployment was asked for %d nodes, three were needed", n)
		}
		stays, err := x.pod("b")
		x.must(err)
		for _, name := range []string{"a", "c"} {
			x.must(x.Delete(t.Context(), testenv.Object("v1/Pod", guests, name)))
		}
		x.wait("the free nodes go", func() error { return x.nodes(t.Context(), "capi-h100", 1) })
		if now, err := x.pod("b"); err != nil || now.UID != stays.UID || now.Spec.NodeName != stays.Spec.NodeName {
			t.Errorf("the pod that stayed is %s on %q, was %s on %q: %v", now.UID, now.Spec.NodeName, stays.UID, stays.Spec.NodeName, err)
		}
	})
	t.Run("MachinePool", func(t *testing.T) {
		x := &tale{trouble{env: b, t: t}}
		x.add(machinePool)
		x.wait("the first node", func() error { return x.nodes(t.Context(), "capi-spot", 1) })
		x.gpuPods("capi-spot", 8, "a", "b")
		x.wait("a node for each pod", func() error { return x.nodes(t.Context(), "capi-spot", 2) })
		x.wait("all pods run", func() error { return x.running("a", "b") })
		for _, name := range []string{"a", "b"} {
			x.must(x.Delete(t.Context(), testenv.Object("v1/Pod", guests, name)))
		}
		x.reconciled()
		x.must(x.nodes(t.Context(), "capi-spot", 2))
	})
}
