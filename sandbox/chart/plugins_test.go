package chart

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// pluginsScheduler is the name by which KubeRay knows the scheduler of scheduler-plugins.
const pluginsScheduler = "scheduler-plugins-scheduler"

// coscheduling runs the scheduler and the controller of scheduler-plugins.
func (x *tale) coscheduling() {
	x.t.Helper()
	x.crds(build.SchedulerPlugins, "config/crd/bases/scheduling.*.yaml")
	config := x.file("scheduler.yaml", fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q}
profiles:
- schedulerName: %s
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}]
`, x.Cluster.Kubeconfig(), pluginsScheduler))
	x.program(x.t, build.SchedulerPlugins, "scheduler", proc.Spec{Args: []string{
		"--config=" + config, "--bind-address=127.0.0.1", "--secure-port=" + port(x.t), "--cert-dir=" + x.t.TempDir(), "--authentication-skip-lookup",
		"--pod-max-in-unschedulable-pods-duration=1s", // a new node is no reason for it to look again: docs/KNOWN_ISSUES.md
	}})
	x.program(x.t, build.SchedulerPlugins, "controller", proc.Spec{Args: []string{
		"--metricsAddr=0", "--probeAddr=" + address(x.t), "--enableLeaderElection=false",
	}})
}

// TestNeighbourSchedulerPlugins: beside a larger and older gang that fits nowhere, one that
// fits gets its nodes, and the scheduler keeps them for it.
func TestNeighbourSchedulerPlugins(t *testing.T) {
	x, _ := begin(t)
	x.coscheduling()
	x.pool()
	gang := func(name string, pods int) {
		x.add(fmt.Sprintf(`
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {namespace: guests, name: %s}
spec: {minMember: %d}
`, name, pods))
		for i := range pods {
			x.add(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {namespace: guests, name: %[1]s-%[2]d, labels: {scheduling.x-k8s.io/pod-group: %[1]s}}
spec:
  schedulerName: %[3]s
  nodeSelector: {gpuscale.io/pool: gang}
  containers: [{name: train, image: train, resources: {limits: {nvidia.com/gpu: "2"}}}]
`, name, i, pluginsScheduler))
		}
	}
	const label = "scheduling.x-k8s.io/pod-group"
	gang("large", 4)
	x.reconciled()
	x.must(x.nodes(t.Context(), "gang", 0))
	gang("train", 2)
	x.wait("the gang that fits", func() error { return x.count(label+"=train", 2, corev1.PodRunning) })
	x.must(x.nodes(t.Context(), "gang", 2))
	x.must(x.count(label+"=large", 4, corev1.PodPending))
}

// TestNeighbourKubeRay: a RayCluster's head and workers are the gang of the PodGroup that KubeRay makes.
// It leaves the PodGroup as it was when the RayCluster is suspended, which then needs no node
// (docs/gangs.md).
func TestNeighbourKubeRay(t *testing.T) {
	x, _ := begin(t)
	x.coscheduling()
	x.crds(build.KubeRay, "config/crd/bases/*.yaml")
	x.program(t, build.KubeRay, "ray-operator", proc.Spec{Args: []string{
		"--batch-scheduler=scheduler-plugins", "--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address=" + address(t),
	}})
	x.pool()
	const kind, workers = "ray.io/v1/RayCluster", "ray.io/group=gpu"
	x.add(fmt.Sprintf(`
apiVersion: ray.io/v1
kind: RayCluster
metadata: {namespace: guests, name: train, labels: {ray.io/gang-scheduling-enabled: "true"}}
spec:
  headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: ray-head, image: ray}]}}}
  workerGroupSpecs: [{groupName: gpu, replicas: 2, minReplicas: 2, maxReplicas: 2, rayStartParams: {}, template: %s}]
`, oneContainer("ray-worker")))
	x.wait("the workers", func() error { return x.count(workers, 2, corev1.PodRunning) })
	x.must(x.nodes(t.Context(), "gang", 2))
	x.update(kind, guests, "train", func(u *unstructured.Unstructured) {
		x.must(unstructured.SetNestedField(u.Object, true, "spec", "suspend"))
	})
	x.wait("the end of the workers", func() error { return x.count(workers, 0, corev1.PodRunning) })
	idle := func() error { return errors.Join(x.nodes(t.Context(), "gang", 0), x.nodes(t.Context(), "whole", 1)) }
	x.wait("the end of the nodes", idle)
	x.reconciled()
	x.must(idle())
}
