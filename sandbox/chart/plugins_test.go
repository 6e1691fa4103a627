package chart

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// TestNeighbourSchedulerPlugins: beside a larger and older gang that fits nowhere, one that
// fits gets its nodes, and the scheduler keeps them for it.
func TestNeighbourSchedulerPlugins(t *testing.T) {
	x, b := begin(t)
	scheduler, controller := b.neighbour(t, build.SchedulerPlugins, "scheduler"), b.neighbour(t, build.SchedulerPlugins, "controller")
	x.must(b.InstallSources(t.Context(), neighbours.Source{Module: build.SchedulerPlugins.Module, Version: build.SchedulerPlugins.Version, Files: []string{"config/crd/bases/scheduling.*.yaml"}}))
	config := x.file("scheduler.yaml", fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q}
profiles:
- schedulerName: gangs
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig: [{name: Coscheduling, args: {permitWaitingTimeSeconds: 10}}]
`, b.Cluster.Kubeconfig()))
	b.beside(t, proc.Spec{Name: "scheduler-plugins", Path: scheduler, Args: []string{
		"--config=" + config, "--bind-address=127.0.0.1", "--secure-port=" + port(t), "--cert-dir=" + t.TempDir(), "--authentication-skip-lookup",
	}})
	b.beside(t, proc.Spec{Name: "scheduler-plugins-controller", Path: controller, Env: []string{"KUBECONFIG=" + b.Cluster.Kubeconfig()}, Args: []string{
		"--metricsAddr=0", "--probeAddr=" + address(t), "--enableLeaderElection=false",
	}})
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
  schedulerName: gangs
  nodeSelector: {gpuscale.io/pool: gang}
  containers: [{name: train, image: train, resources: {limits: {nvidia.com/gpu: "2"}}}]
`, name, i))
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
