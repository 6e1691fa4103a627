package chart

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourKarpenter: a static NodePool grows by exactly the nodes that pods require, and its free nodes
// are removed by name.
func TestNeighbourKarpenter(t *testing.T) {
	x, b := begin(t)
	x.crds(build.Karpenter, "kwok/apis/crds/*.yaml")
	types := x.file("types.json", x.text("karpenter-types.json")) // the only types of the kwok provider
	b.program(t, build.Karpenter, "kwok", proc.Spec{Env: []string{
		"DISABLE_LEADER_ELECTION=true", "FEATURE_GATES=StaticCapacity=true",
		"INSTANCE_TYPES_FILE_PATH=" + types, "METRICS_PORT=" + port(t), "HEALTH_PROBE_PORT=" + port(t),
	}})
	b.reinstalled(t, "--set", "autoscaler.pools.karpenter=true", "--set", "autoscaler.config.policy.scaleDownCooldown=1s")
	most := x.most(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}, "h100", "spec", "replicas")
	x.cleanup(func(ctx context.Context) error {
		return until(ctx, "the end of the pool's nodes", func() error { return x.nodes(ctx, "karpenter-h100", 0) })
	})
	x.add(x.text("karpenter.yaml"))
	x.wait("the first node", func() error { return x.nodes(t.Context(), "karpenter-h100", 1) })
	for _, name := range []string{"a", "b", "c"} {
		x.add(x.text("karpenter-pod.yaml", "NAME", name))
	}
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
