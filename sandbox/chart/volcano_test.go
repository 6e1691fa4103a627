package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// envVolcano names a checkout of Volcano with its programs in _output/bin, as `make vc-scheduler
// vc-controller-manager` leaves them. The tests cannot compile it, since it has no module that can be
// downloaded.
const envVolcano = "GPUSCALE_TEST_VOLCANO"

// TestNeighbourVolcano: the pods of a Volcano job get their nodes together or not at all, though the
// controller creates them only when their PodGroup is in the queue. The same is true of pods that must be in
// one HyperNode.
func TestNeighbourVolcano(t *testing.T) {
	x, _ := begin(t)
	dir := os.Getenv(envVolcano)
	if dir == "" {
		t.Skip(envVolcano + " names no checkout of Volcano with its programs")
	}
	x.must(neighbours.Apply(t.Context(), x.Admin, filepath.Join(dir, "config/crd/*/bases/*.yaml")))
	run := func(program string, args ...string) {
		x.beside(t, proc.Spec{
			Name: "Volcano " + program, Path: filepath.Join(dir, "_output/bin", program),
			Args: append(args, "--kubeconfig="+x.Cluster.Kubeconfig(), "--leader-elect=false"),
		})
	}
	run("vc-controller-manager")
	run("vc-scheduler", "--scheduler-conf="+x.file("volcano-scheduler.yaml", x.text("volcano-scheduler.yaml")), "--listen-address=127.0.0.1:"+port(t))
	x.pool()
	x.add(x.text("volcano-job.yaml", "NAME", "large", "PODS", "4", "TOPOLOGY", "null"))
	x.wait("the PodGroup of a job that fits nowhere", func() error { return x.podGroups(1) })
	x.reconciled()
	x.must(x.nodes(t.Context(), "gang", 0))
	x.must(x.Delete(t.Context(), testenv.Object("batch.volcano.sh/v1alpha1/Job", guests, "large")))
	x.wait("its end", func() error { return x.podGroups(0) })
	x.add(x.text("volcano-job.yaml", "NAME", "train", "PODS", "2", "TOPOLOGY", "null"))
	x.wait("a job that fits", func() error { return x.count("volcano-job=train", 2, corev1.PodRunning) })
	x.must(x.nodes(t.Context(), "gang", 2))
	x.must(x.Delete(t.Context(), testenv.Object("batch.volcano.sh/v1alpha1/Job", guests, "train")))
	x.wait("the end of its nodes", func() error { return x.nodes(t.Context(), "gang", 0) })
	x.add(x.text("volcano-rack.yaml"))
	x.add(x.text("volcano-job.yaml", "NAME", "near", "PODS", "2", "TOPOLOGY", "{mode: hard, highestTierAllowed: 1}"))
	x.wait("a job in one rack", func() error { return x.count("volcano-job=near", 2, corev1.PodRunning) })
	x.must(x.nodes(t.Context(), "gang", 2))
}

// podGroups returns nil if there is this number of Volcano's PodGroups.
func (x *tale) podGroups(want int) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroupList"})
	if err := x.Admin.List(x.t.Context(), list, client.InNamespace(guests)); err != nil {
		return err
	}
	if len(list.Items) != want {
		return fmt.Errorf("%d PodGroups, want %d", len(list.Items), want)
	}
	return nil
}
