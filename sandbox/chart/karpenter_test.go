package chart

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// p5 is the only type of machines in Karpenter's kwok provider.
const p5 = `[{"name": "p5.48xlarge", "architecture": "amd64", "operatingSystems": ["linux"],
"resources": {"cpu": "192", "memory": "2000Gi", "nvidia.com/gpu": "8", "pods": "110", "ephemeral-storage": "100Gi"},
"offerings": [{"Price": 55, "Available": true, "Requirements": [
{"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["test-zone-a"]}]}]}]`

// karpenterPool is docs/pools.md's, over the kwok provider. The labels of GPUs are the
// template's: GPU feature discovery does not run here.
const karpenterPool = `
apiVersion: karpenter.kwok.sh/v1alpha1
kind: KWOKNodeClass
metadata: {name: h100}
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: h100}
spec:
  replicas: 1
  template:
    metadata:
      labels: {gpuscale.io/pool: karpenter-h100, nvidia.com/gpu.present: "true", nvidia.com/gpu.count: "8", nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}
    spec:
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: h100}
      requirements:
      - {key: node.kubernetes.io/instance-type, operator: In, values: [p5.48xlarge]}
---
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: karpenter-h100}
spec:
  min: 1
  max: 8
  provider:
    scale: {apiVersion: karpenter.sh/v1, kind: NodePool, name: h100}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 8, cpu: "192", memory: 2000Gi}
  pricePerHour: "55"
  scaleDown: {idleAfter: 1s}
`

// TestNeighbourKarpenter: a static NodePool grows by exactly the nodes that pods need,
// and the free ones of them go, by name.
func TestNeighbourKarpenter(t *testing.T) {
	x, b := begin(t)
	x.crds(build.Karpenter, "kwok/apis/crds/*.yaml")
	types := filepath.Join(t.TempDir(), "types.json")
	x.must(os.WriteFile(types, []byte(p5), 0o600))
	b.program(t, build.Karpenter, "kwok", proc.Spec{Env: []string{
		"DISABLE_LEADER_ELECTION=true", "FEATURE_GATES=StaticCapacity=true",
		"INSTANCE_TYPES_FILE_PATH=" + types, "METRICS_PORT=" + port(t), "HEALTH_PROBE_PORT=" + port(t),
	}})
	b.reinstalled(t, "--set", "autoscaler.pools.karpenter=true", "--set", "autoscaler.config.policy.scaleDownCooldown=1s")
	most := x.most(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, "h100", "spec", "replicas")
	x.cleanup(func(ctx context.Context) error {
		return until(ctx, "the end of the pool's nodes", func() error { return x.nodes(ctx, "karpenter-h100", 0) })
	})
	x.add(karpenterPool)
	x.wait("the first node", func() error { return x.nodes(t.Context(), "karpenter-h100", 1) })
	x.gpuPods("karpenter-h100", 8, "a", "b", "c")
	x.wait("a node for each pod", func() error { return x.nodes(t.Context(), "karpenter-h100", 3) })
	x.wait("all pods run", func() error { return x.running("a", "b", "c") })
	if n := most(); n != 3 {
		t.Errorf("the NodePool was asked for %d nodes, three were needed", n)
	}
	stays, err := x.pod("b")
	x.must(err)
	for _, name := range []string{"a", "c"} {
		x.must(x.Delete(t.Context(), testenv.Object("v1/Pod", guests, name)))
	}
	x.wait("the free nodes go", func() error { return x.nodes(t.Context(), "karpenter-h100", 1) })
	if now, err := x.pod("b"); err != nil || now.UID != stays.UID || now.Spec.NodeName != stays.Spec.NodeName {
		t.Errorf("the pod that stayed is %s on %q, was %s on %q: %v", now.UID, now.Spec.NodeName, stays.UID, stays.Spec.NodeName, err)
	}
}
