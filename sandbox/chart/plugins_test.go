package chart

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// coscheduling runs the scheduler and the controller of scheduler-plugins.
func (x *tale) coscheduling() {
	x.t.Helper()
	x.crds(build.SchedulerPlugins, "config/crd/bases/scheduling.*.yaml")
	config := x.file("scheduler.yaml", x.text("scheduler.yaml", "KUBECONFIG", x.Cluster.Kubeconfig()))
	x.program(x.t, build.SchedulerPlugins, "scheduler", proc.Spec{Args: []string{
		"--config=" + config, "--bind-address=127.0.0.1", "--secure-port=" + port(x.t), "--cert-dir=" + x.t.TempDir(), "--authentication-skip-lookup",
		"--pod-max-in-unschedulable-pods-duration=1s", // a new node does not make it retry: docs/KNOWN_ISSUES.md
	}})
	x.program(x.t, build.SchedulerPlugins, "controller", proc.Spec{Args: []string{
		"--metricsAddr=0", "--probeAddr=" + testenv.FreeAddress(x.t), "--enableLeaderElection=false",
	}})
}

// TestNeighbourSchedulerPlugins: a gang that fits gets its nodes beside a larger, older gang that fits
// nowhere, and the scheduler keeps the nodes for it.
func TestNeighbourSchedulerPlugins(t *testing.T) {
	x, _ := begin(t)
	x.coscheduling()
	x.pool()
	const label = "scheduling.x-k8s.io/pod-group"
	x.add(x.text("podgroup.yaml", "NAME", "large", "PODS", "4"))
	x.wait("a gang that fits nowhere", func() error { return x.count(label+"=large", 4, corev1.PodPending) })
	x.reconciled()
	x.must(x.nodes(t.Context(), "gang", 0))
	x.add(x.text("podgroup.yaml", "NAME", "train", "PODS", "2"))
	x.wait("the gang that fits", func() error { return x.count(label+"=train", 2, corev1.PodRunning) })
	x.must(x.nodes(t.Context(), "gang", 2))
	x.must(x.count(label+"=large", 4, corev1.PodPending))
}

// TestNeighbourKubeRay: a RayCluster's head and workers form a gang, by the PodGroup that KubeRay creates.
// KubeRay does not change the PodGroup when the RayCluster is suspended, but the suspended RayCluster gets no
// node (docs/gangs.md).
func TestNeighbourKubeRay(t *testing.T) {
	x, _ := begin(t)
	x.coscheduling()
	x.crds(build.KubeRay, "config/crd/bases/*.yaml")
	x.program(t, build.KubeRay, "ray-operator", proc.Spec{Args: []string{
		"--batch-scheduler=scheduler-plugins", "--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address=" + testenv.FreeAddress(t),
	}})
	x.pool()
	const workers = "ray.io/group=gpu"
	x.add(x.text("raycluster.yaml"))
	x.wait("the workers", func() error { return x.count(workers, 2, corev1.PodRunning) })
	x.must(x.nodes(t.Context(), "gang", 2))
	x.must(x.Admin.Patch(t.Context(), testenv.Object("ray.io/v1/RayCluster", guests, "train"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))))
	x.wait("the end of the workers", func() error { return x.count(workers, 0, corev1.PodRunning) })
	idle := func() error { return errors.Join(x.nodes(t.Context(), "gang", 0), x.nodes(t.Context(), "whole", 1)) }
	x.wait("the end of the nodes", idle)
	x.reconciled()
	x.must(idle())
}
