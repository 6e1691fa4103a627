package chart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// operatorCerts is where the Training Operator expects its certificate. No flag changes it.
const operatorCerts = "/tmp/k8s-webhook-server/serving-certs"

// TestNeighbourTrainingOperator: master and workers of a PyTorchJob get their nodes together or not at all
// (docs/gangs.md).
func TestNeighbourTrainingOperator(t *testing.T) {
	x, _ := begin(t)
	if err := os.Mkdir(filepath.Dir(operatorCerts), 0o700); err != nil {
		t.Fatalf("the Training Operator needs a folder of its own: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(operatorCerts)) })
	x.must(os.Mkdir(operatorCerts, 0o700))
	x.Run(t, testenv.Project{Neighbour: build.TrainingOperator, Program: "training-operator.v1", Folder: "manifests/overlays/standalone", Namespace: "kubeflow", Service: "training-operator"}, func(hook, _ string) proc.Spec {
		x.mount("kubeflow", "training-operator-webhook-cert", operatorCerts) // it creates its own certificate
		return proc.Spec{Args: []string{"--webhook-server-port=" + hook, "--metrics-bind-address=0", "--health-probe-bind-address=" + testenv.FreeAddress(t), "--enable-scheme=pytorchjob"}}
	})
	x.pool()
	x.whole("pytorchjob.yaml", "kubeflow.org/v1/PyTorchJob", "training.kubeflow.org/job-name", 4)
}

// TestNeighbourTrainer: the pods of a TrainJob, which its JobSet creates, get their nodes together or not at
// all. A suspended TrainJob gets none (docs/gangs.md).
func TestNeighbourTrainer(t *testing.T) {
	x, _ := begin(t)
	x.manifests(build.JobSet, "jobset", "jobset-webhook-service")
	module, err := build.Trainer.Dir(t.Context())
	x.must(err)
	// Trainer's complete kustomization downloads JobSet's manifests, so another one is used.
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
`, hook, testenv.FreeAddress(t)))}}
	})
	runtime, err := os.ReadFile(filepath.Join(module, "manifests/base/runtimes/torch_distributed.yaml"))
	x.must(err)
	x.add(string(runtime))
	x.pool()
	x.whole("trainjob.yaml", "trainer.kubeflow.org/v1alpha1/TrainJob", "jobset.sigs.k8s.io/jobset-name", 4, "RUNTIME", "torch-distributed", "SUSPEND", "false")
	// A suspended TrainJob already has a PodGroup. The PodGroup has resources and no selector, so it fits any pool.
	x.add(strings.NewReplacer("name: torch-distributed", "name: gang", "\nspec:\n  mlPolicy:", "\nspec:\n  podGroupPolicy: {coscheduling: {}}\n  mlPolicy:").Replace(string(runtime)))
	suspended, err := neighbours.Parse([]byte(x.text("trainjob.yaml", "NAME", "suspended", "PODS", "1", "RUNTIME", "gang", "SUSPEND", "true")))
	x.must(err)
	x.wait("the runtime known to Trainer's webhook", func() error {
		return x.Admin.Create(t.Context(), suspended[0].DeepCopy(), client.DryRunAll)
	})
	x.addObjects(suspended)
	x.wait("its PodGroup", func() error {
		group := testenv.Object("scheduling.x-k8s.io/v1alpha1/PodGroup", guests, "suspended")
		return x.Admin.Get(t.Context(), keyOf(group), group)
	})
	x.reconciled()
	x.must(errors.Join(x.nodes(t.Context(), "gang", 2), x.nodes(t.Context(), "whole", 1)))
}

// TestNeighbourMPIOperator: launcher and workers of an MPIJob get their nodes together or not at all
// (docs/gangs.md).
func TestNeighbourMPIOperator(t *testing.T) {
	x, _ := begin(t)
	x.crds(build.MPIOperator, "manifests/base/kubeflow.org_mpijobs.yaml")
	x.program(t, build.MPIOperator, "mpi-operator", proc.Spec{Args: []string{"--lock-namespace=" + guests}})
	x.pool()
	x.whole("mpijob.yaml", "kubeflow.org/v2beta1/MPIJob", "training.kubeflow.org/job-name", 4)
}
