package guardrails

import (
	"context"
	"encoding/base64"
	"os"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourClusterAPI tests docs/pools.md's MachineDeployment with Cluster API's own controllers. It
// grows, though its new nodes have the taint of uninitialized nodes, and named nodes are removed. A
// MachinePool grows and keeps its nodes.
func TestNeighbourClusterAPI(t *testing.T) {
	testall.Neighbours(t)
	w := newWorld(t, setup{})
	w.must(w.Namespace(t.Context(), fleet, nil))
	w.must(w.Create(t.Context(), neighbours.MetalCRDs()))
	kubeconfig, err := os.ReadFile(w.Cluster.Kubeconfig())
	w.must(err)
	w.Run(t, testenv.Project{Neighbour: build.ClusterAPI, Program: "core", Folder: "core/config/default", Namespace: "capi-system", Service: "capi-webhook-service"}, func(hook, certs string) proc.Spec {
		return proc.Spec{Args: []string{
			"--webhook-port=" + hook, "--webhook-cert-dir=" + certs, "--health-addr=" + testenv.FreeAddress(t), "--diagnostics-address=" + testenv.FreeAddress(t), "--insecure-diagnostics",
			"--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields", `--additional-sync-machine-labels=^gpuscale\.io/pool$`,
		}}
	})
	w.play((&neighbours.Metal{Client: w.Admin, Nodes: fakeNodes()}).Run)
	t.Cleanup(func() { // before their controllers are stopped
		for _, o := range [][2]string{{"MachinePool", "spot"}, {"MachineDeployment", "h100"}, {"Cluster", "main"}} {
			if err := w.Delete(context.Background(), testenv.Object("cluster.x-k8s.io/v1beta2/"+o[0], fleet, o[1])); err != nil {
				t.Errorf("deleting %s: %v", o[0], err)
			}
		}
	})
	w.apply(w.objects("metal-cluster.yaml", "KUBECONFIG", base64.StdEncoding.EncodeToString(kubeconfig))...)
	w.growAndShrink("capi-h100", w.manifests()["capi-h100"])

	w.apply(w.objects("machine-pool.yaml")...)
	w.until("the pool as it stands", w.has("capi-spot", 1))
	for _, name := range []string{"a", "b"} {
		w.podFor("capi-spot-"+name, "capi-spot", perNode)
	}
	w.until("a node for each pod", w.has("capi-spot", 2))
	w.await("all pods run", w.runs("capi-spot", 2))
	for _, p := range w.pods("capi-spot") {
		w.must(w.Delete(t.Context(), &p))
	}
	w.elapse(15 * time.Minute)
	w.must(w.has("capi-spot", 2)())
}
