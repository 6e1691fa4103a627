package chart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// whole waits until a gang that fits nowhere has its four pods and no node, ends it, and waits
// until one of two pods runs on two nodes: kube-scheduler binds pods one by one, and would give
// these the others' nodes.
func (x *tale) whole(kind, label string, gang func(name string, pods int) string) {
	x.t.Helper()
	x.add(gang("large", 4))
	x.wait("pods of a gang that fits nowhere", func() error { return x.count(label+"=large", 4, corev1.PodPending) })
	x.reconciled()
	x.must(x.nodes(x.t.Context(), "gang", 0))
	x.must(x.Delete(x.t.Context(), testenv.Object(kind, guests, "large")))
	x.wait("the end of its pods", func() error { return x.count(label+"=large", 0, corev1.PodPending) })
	x.add(gang("train", 2))
	x.wait("a gang that fits", func() error { return x.count(label+"=train", 2, corev1.PodRunning) })
	x.must(x.nodes(x.t.Context(), "gang", 2))
}

// operatorCerts is where the Training Operator's certificate must be: no flag changes it.
const operatorCerts = "/tmp/k8s-webhook-server/serving-certs"

// TestNeighbourTrainingOperator: master and workers of a PyTorchJob get their nodes together, or
// none (docs/gangs.md).
func TestNeighbourTrainingOperator(t *testing.T) {
	x, _ := begin(t)
	if err := os.Mkdir(filepath.Dir(operatorCerts), 0o700); err != nil {
		t.Fatalf("the Training Operator needs a folder of its own: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(operatorCerts)) })
	x.must(os.Mkdir(operatorCerts, 0o700))
	x.Run(t, testenv.Project{Neighbour: build.TrainingOperator, Program: "training-operator.v1", Folder: "manifests/overlays/standalone", Namespace: "kubeflow", Service: "training-operator"}, func(hook, _ string) proc.Spec {
		x.mount("kubeflow", "training-operator-webhook-cert", operatorCerts) // it makes its own
		return proc.Spec{Args: []string{"--webhook-server-port=" + hook, "--metrics-bind-address=0", "--health-probe-bind-address=" + address(t), "--enable-scheme=pytorchjob"}}
	})
	x.pool()
	x.whole("kubeflow.org/v1/PyTorchJob", "training.kubeflow.org/job-name", func(name string, pods int) string {
		role := fmt.Sprintf(`{replicas: %%d, template: %s}`, oneContainer("pytorch"))
		return fmt.Sprintf(`
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {namespace: guests, name: %s}
spec: {pytorchReplicaSpecs: {Master: %s, Worker: %s}}
`, name, fmt.Sprintf(role, 1), fmt.Sprintf(role, pods-1))
	})
}

// oneContainer is gangPod's template; the names of containers matter to the operators.
func oneContainer(name string) string {
	return `{spec: {nodeSelector: {gpuscale.io/pool: gang}, containers: [{name: ` + name + `, image: train, resources: {limits: {nvidia.com/gpu: "2"}}}]}}`
}

// TestNeighbourTrainer: the nodes of a TrainJob, which its JobSet makes, come together or not
// at all, and a suspended one gets none (docs/gangs.md).
func TestNeighbourTrainer(t *testing.T) {
	x, _ := begin(t)
	x.manifests(build.JobSet, "jobset", "jobset-webhook-service")
	module, err := build.Trainer.Dir(t.Context())
	x.must(err)
	// Its own kustomization of the whole reads JobSet's from the network.
	dir := t.TempDir()
	rel, err := filepath.Rel(dir, module)
	x.must(err)
	x.must(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil,
		"namespace: kubeflow-system\nresources: [%[1]s/manifests/base/crds, %[1]s/manifests/base/manager, %[1]s/manifests/base/rbac, %[1]s/manifests/base/webhook]\n", rel), 0o600))
	x.must(x.Namespace(t.Context(), "kubeflow-system", nil))
	x.Run(t, testenv.Project{Neighbour: build.Trainer, Program: "trainer-controller-manager", Folder: dir, Namespace: "kubeflow-system", Service: "kubeflow-trainer-controller-manager"}, func(hook, certs string) proc.Spec {
		tmp := filepath.Join(certs, "k8s-webhook-server")
		x.must(os.Mkdir(tmp, 0o700))
		x.must(os.Symlink(certs, filepath.Join(tmp, "serving-certs")))
		return proc.Spec{Env: []string{"TMPDIR=" + certs}, Args: []string{"--config=" + x.file("config.yaml", fmt.Sprintf(`
apiVersion: config.trainer.kubeflow.org/v1alpha1
kind: Configuration
certManagement: {enable: false}
leaderElection: {leaderElect: false}
webhook: {port: %s, host: 127.0.0.1}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
`, hook, address(t)))}}
	})
	runtime, err := os.ReadFile(filepath.Join(module, "manifests/base/runtimes/torch_distributed.yaml"))
	x.must(err)
	x.add(string(runtime))
	x.pool()
	job := func(name, runtime string, pods int, more string) string {
		return fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {namespace: guests, name: %s}
spec:
  runtimeRef: {name: %s}
  trainer: {numNodes: %d, resourcesPerNode: {requests: {nvidia.com/gpu: "2"}, limits: {nvidia.com/gpu: "2"}}}
  podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {gpuscale.io/pool: gang}}}]
  %s
`, name, runtime, pods, more)
	}
	x.whole("trainer.kubeflow.org/v1alpha1/TrainJob", "jobset.sigs.k8s.io/jobset-name", func(name string, pods int) string {
		return job(name, "torch-distributed", pods, "")
	})
	// The PodGroup of a suspended TrainJob is there. It has resources and no selector: any pool fits.
	x.add(strings.NewReplacer("name: torch-distributed", "name: gang", "\nspec:\n  mlPolicy:", "\nspec:\n  podGroupPolicy: {coscheduling: {}}\n  mlPolicy:").Replace(string(runtime)))
	x.add(job("suspended", "gang", 1, "suspend: true"))
	x.wait("its PodGroup", func() error {
		group := testenv.Object("scheduling.x-k8s.io/v1alpha1/PodGroup", guests, "suspended")
		return x.Admin.Get(t.Context(), keyOf(group), group)
	})
	x.reconciled()
	x.must(errors.Join(x.nodes(t.Context(), "gang", 2), x.nodes(t.Context(), "whole", 1)))
}

// TestNeighbourMPIOperator: launcher and workers of an MPIJob get their nodes together, or none
// (docs/gangs.md).
func TestNeighbourMPIOperator(t *testing.T) {
	x, _ := begin(t)
	x.crds(build.MPIOperator, "manifests/base/kubeflow.org_mpijobs.yaml")
	x.program(t, build.MPIOperator, "mpi-operator", proc.Spec{Args: []string{"--lock-namespace=" + guests}})
	x.pool()
	x.whole("kubeflow.org/v2beta1/MPIJob", "training.kubeflow.org/job-name", func(name string, pods int) string {
		role := fmt.Sprintf(`{replicas: %%d, template: %s}`, oneContainer("mpi"))
		return fmt.Sprintf(`
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {namespace: guests, name: %s}
spec: {slotsPerWorker: 2, mpiReplicaSpecs: {Launcher: %s, Worker: %s}}
`, name, fmt.Sprintf(role, 1), fmt.Sprintf(role, pods-1))
	})
}
