package chart

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourKarpenter: a static NodePool grows by exactly the nodes that pods require, and its free nodes are removed
// by name. It does not grow for a pod for which Karpenter makes a node of another NodePool.
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
		return until(ctx, "the end of Karpenter's nodes", func() error {
			var list corev1.NodeList
			if err := x.Admin.List(ctx, &list, client.HasLabels{"karpenter.sh/nodepool"}); err != nil || len(list.Items) > 0 {
				return errors.Join(err, errNotYet)
			}
			return nil
		})
	})
	x.add(x.text("karpenter.yaml"))
	x.wait("the first node", func() error { return x.nodes(t.Context(), "karpenter-h100", 1) })
	x.add(x.text("karpenter-pod.yaml", "NAME", "a"))
	x.wait("it is full", func() error { return x.running("a") })
	x.besideDynamic()
	if n := most(); n != 1 {
		t.Errorf("the NodePool was asked for %d nodes, Karpenter made another's node for the pod", n)
	}
	for _, name := range []string{"b", "c"} {
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

// besideDynamic freezes the pool and adds a pod that suits a NodePool without replicas too. Once Karpenter has made a
// NodeClaim for the pod, it ends the freeze and waits until the pod runs.
func (x *tale) besideDynamic() {
	x.t.Helper()
	freeze := func(is bool) {
		pool := testenv.Object("gpuscale.io/v1alpha1/GPUNodePool", "", "karpenter-h100")
		x.must(x.Admin.Patch(x.t.Context(), pool, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"freeze":%t}}`, is))))
	}
	freeze(true)
	x.add(x.text("karpenter-dynamic.yaml"))
	x.add(x.text("karpenter-pod.yaml", "NAME", "d", "gpuscale.io/pool: karpenter-h100", "node.kubernetes.io/instance-type: p5.48xlarge"))
	x.wait("Karpenter's NodeClaim", func() error {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaimList"})
		if err := x.Admin.List(x.t.Context(), &list, client.MatchingLabels{"karpenter.sh/nodepool": "dynamic"}); err != nil || len(list.Items) == 0 {
			return errors.Join(err, errNotYet)
		}
		return nil
	})
	freeze(false)
	x.wait("its pod runs", func() error { return x.running("d") })
}
