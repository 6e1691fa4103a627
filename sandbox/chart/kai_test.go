package chart

import (
	"context"
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

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// envKAI names a checkout of KAI with its programs in _output/bin, as built by `go build -o _output/bin/
// ./cmd/scheduler ./cmd/binder ./cmd/podgrouper ./cmd/podgroupcontroller ./cmd/queuecontroller`. The tests
// cannot compile it, since the Go proxy does not have its module.
const envKAI = "GPUSCALE_TEST_KAI"

const (
	kaiReservations = "kai-resource-reservation" // namespace, and account
	kaiJobs         = "kai-job"                  // label
	kaiReserved     = "run.ai/reserve_for_gpu_index"
)

// kai runs KAI's programs with their default configuration and without webhooks, beside the pool "gang".
func (x *tale) kai() {
	x.t.Helper()
	dir := os.Getenv(envKAI)
	if dir == "" {
		x.t.Skip(envKAI + " names no checkout of KAI with its programs")
	}
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
	x.pool()
}

// reserve simulates, until the test ends, the program in KAI's GPU reservation pods. It writes the UUID of
// the pod's GPU (0.17.0, pkg/resourcereservation/patcher), for which the binder waits. There are no GPUs, so
// the pods' UIDs are used as UUIDs.
func (x *tale) reserve() {
	go func() {
		_ = await.Until(x.t.Context(), func(ctx context.Context) error {
			var list corev1.PodList
			err := x.Admin.List(ctx, &list, client.InNamespace(kaiReservations))
			for i := range list.Items {
				p := &list.Items[i]
				if was := p.DeepCopy(); p.Status.Phase == corev1.PodRunning && p.Annotations[kaiReserved] == "" {
					p.Annotations[kaiReserved] = "GPU-" + string(p.UID)
					err = errors.Join(err, x.Admin.Patch(ctx, p, client.MergeFrom(was)))
				}
			}
			return errors.Join(err, errNotYet)
		})
	}()
}

// parts returns nil if this number of pods of a set run, on this number of GPUs that KAI reserves, on this
// number of nodes.
func (x *tale) parts(set string, pods, gpus, nodes int) error {
	var list corev1.PodList
	err := x.Admin.List(x.t.Context(), &list, client.InNamespace(kaiReservations))
	if err == nil && len(list.Items) != gpus {
		err = fmt.Errorf("%d GPUs are reserved, want %d", len(list.Items), gpus)
	}
	return errors.Join(err, x.count(kaiJobs+"="+set, pods, corev1.PodRunning), x.nodes(x.t.Context(), "gang", nodes))
}

// held returns nil if KAI reports on the only PodGroup that it starts none of its pods for this reason.
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

// TestNeighbourKAI: the pods of a gang get their nodes together or not at all, and so do those of subgroups.
// An elastic gang gets more than its minimum. Pods that KAI would start on no node get no node.
func TestNeighbourKAI(t *testing.T) {
	x, _ := begin(t)
	x.kai()
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
		x.reconciled() // a node may come that was requested before KAI reported
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

// TestNeighbourKAIParts: pods that request parts of GPUs get the nodes on which KAI packs them, and these
// nodes stay while the pods run. KAI's GPU reservation pods do not keep a node.
func TestNeighbourKAIParts(t *testing.T) {
	x, _ := begin(t)
	x.kai()
	x.reserve()
	for _, set := range []struct {
		name, annotation, amount string
		pods, gpus, nodes        int
	}{
		{"halves", "gpu-fraction", "0.5", 3, 2, 1},
		{"memory", "gpu-memory", "40779", 4, 4, 2}, // half of an H100's memory, but KAI rounds down
	} {
		pods := make([]string, set.pods)
		for i := range pods {
			pods[i] = fmt.Sprintf("%s-%d", set.name, i)
			x.add(x.text("kai-parts.yaml", "NAME", pods[i], "SET", set.name, "ANNOTATION", set.annotation, "AMOUNT", set.amount))
		}
		x.wait(set.name, func() error { return x.parts(set.name, set.pods, set.gpus, set.nodes) })
		x.reconciled()
		x.must(x.parts(set.name, set.pods, set.gpus, set.nodes))
		for _, name := range pods {
			x.must(x.Delete(t.Context(), testenv.Object("apps/v1/Deployment", guests, name)))
		}
		x.wait("the end of "+set.name, func() error { return x.parts(set.name, 0, 0, 0) })
	}
}
