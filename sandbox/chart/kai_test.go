package chart

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// envKAI names a checkout of KAI with its programs in _output/bin, as
// `go build -o _output/bin/ ./cmd/scheduler ./cmd/binder ./cmd/podgrouper ./cmd/podgroupcontroller ./cmd/queuecontroller`
// leaves them there: the Go proxy has no module of it that the tests could compile.
const envKAI = "GPUSCALE_TEST_KAI"

const (
	kaiReservations = "kai-resource-reservation" // namespace, and account
	kaiJobs         = "kai-job"                  // label
)

// kai runs KAI's programs, with the configuration that they have by themselves, and without webhooks.
func (x *tale) kai(dir string) {
	x.t.Helper()
	x.must(neighbours.Apply(x.t.Context(), x.Admin, filepath.Join(dir, "deployments/kai-scheduler/crds/*.yaml")))
	for _, namespace := range []string{kaiReservations, "kai-scheduler"} {
		x.must(x.Namespace(x.t.Context(), namespace, nil))
	}
	x.add("{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: " + kaiReservations + ", name: " + kaiReservations + "}}")
	x.add(x.text("kai.yaml"))
	run := func(program string, args ...string) {
		x.beside(x.t, proc.Spec{
			Name: "KAI " + program, Path: filepath.Join(dir, "_output/bin", program), Args: args,
			Env: []string{"KUBECONFIG=" + x.Cluster.Kubeconfig()},
		})
	}
	health := func() string { return "--health-probe-bind-address=" + testenv.FreeAddress(x.t) }
	run("scheduler", "--schedule-period=500ms", "--listen-address="+testenv.FreeAddress(x.t), "--plugin-server-port="+port(x.t))
	run("binder", "--metrics-bind-address=0", health())
	run("podgrouper", "--metrics-bind-address=0", health())
	run("podgroupcontroller", "--metrics-bind-address=0", "--enable-podgroup-webhook=false", health())
	run("queuecontroller", "--metrics-listen-address=0", "--enable-webhook=false")
}

// held reports whether KAI says of the one PodGroup that it starts none of its pods for this reason.
func (x *tale) held(reason string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.run.ai", Version: "v2alpha2", Kind: "PodGroupList"})
	if err := x.Admin.List(x.t.Context(), list, client.InNamespace(guests)); err != nil {
		return err
	}
	if text := fmt.Sprint(list.Items); len(list.Items) != 1 || !strings.Contains(text, "reason:"+reason) {
		return fmt.Errorf("no %s in %s", reason, text)
	}
	return nil
}

// TestNeighbourKAI: the pods of a gang get their nodes together, or none; so do those of subgroups. An elastic gang gets more
// than its minimum. What KAI starts on no node gets none.
func TestNeighbourKAI(t *testing.T) {
	x, _ := begin(t)
	dir := os.Getenv(envKAI)
	if dir == "" {
		t.Skip(envKAI + " names no checkout of KAI with its programs")
	}
	x.kai(dir)
	x.pool()
	nodes := func(n int) { x.t.Helper(); x.must(x.nodes(t.Context(), "gang", n)) }
	job := func(name, queue, priority, pods, least string) {
		x.add(x.text("kai-job.yaml", "NAME", name, "QUEUE", queue, "PRIORITY", priority, "PODS", pods, "LEAST", least))
	}
	end := func(kind, name string) {
		x.t.Helper()
		x.must(x.Delete(t.Context(), testenv.Object(kind, guests, name)))
		x.wait("the end of the nodes of "+name, func() error {
			return errors.Join(x.nodes(t.Context(), "gang", 0), x.count(kaiJobs+"="+name, 0, corev1.PodPending))
		})
	}

	job("large", "team", "train", "4", "4")
	x.wait("a gang that fits nowhere", func() error { return x.count(kaiJobs+"=large", 4, corev1.PodPending) })
	x.reconciled()
	nodes(0)
	end("batch/v1/Job", "large")
	job("train", "team", "train", "2", "2")
	x.wait("a gang that fits", func() error { return x.count(kaiJobs+"=train", 2, corev1.PodRunning) })
	nodes(2)
	end("batch/v1/Job", "train")
	job("elastic", "team", "train", "3", "1")
	x.wait("all of an elastic gang", func() error { return x.count(kaiJobs+"=elastic", 3, corev1.PodRunning) })
	nodes(3)
	end("batch/v1/Job", "elastic")

	for reason, of := range map[string][2]string{
		"QueueDoesNotExist": {"nobodys", "train"}, "OverLimit": {"no-limit", "train"}, "NonPreemptibleOverQuota": {"team", "build"},
	} {
		job("held", of[0], of[1], "1", "1")
		x.wait(reason, func() error { return x.held(reason) })
		x.wait("the end of a node that came before KAI had said so", func() error { return x.nodes(t.Context(), "gang", 0) })
		x.reconciled()
		nodes(0)
		end("batch/v1/Job", "held")
	}

	x.add(x.text("kai-subgroups.yaml", "PODS", "1"))
	x.add(x.text("kai-pod.yaml", "NAME", "prefill", "SUBGROUP", "prefill"))
	x.add(x.text("kai-pod.yaml", "NAME", "decode", "SUBGROUP", "decode"))
	x.wait("two subgroups", func() error { return x.count(kaiJobs+"=serve", 2, corev1.PodRunning) })
	nodes(2)
	for _, name := range []string{"serve-prefill", "serve-decode"} {
		x.must(x.Delete(t.Context(), testenv.Object("v1/Pod", guests, name)))
	}
	end("scheduling.run.ai/v2alpha2/PodGroup", "serve")
}
