package guardrails

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// run returns the output of a program.
func (w *world) run(program string, args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), program, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

func (w *world) kube(args ...string) string {
	w.t.Helper()
	return w.run(w.Binaries.Program("kubectl"), append([]string{"--kubeconfig", w.Cluster.Kubeconfig(), "--namespace", w.namespace()}, args...)...)
}

// awaitEvent waits until an Event of the autoscaler about a pod has this reason.
func (w *world) awaitEvent(pod, reason string) {
	w.t.Helper()
	w.await(pod+" has an Event "+reason, func() error {
		var list eventsv1.EventList
		w.must(w.Admin.List(w.t.Context(), &list, client.InNamespace(w.namespace())))
		for _, e := range list.Items {
			if e.Regarding.Name == pod && e.Reason == reason && e.ReportingController == "gpuscale-autoscaler" {
				return nil
			}
		}
		return fmt.Errorf("%d other Events", len(list.Items))
	})
}

func (w *world) isRunning(pod string) {
	w.t.Helper()
	w.await(pod+" runs", func() error {
		var p corev1.Pod
		if err := w.Admin.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace(), Name: pod}, &p); err != nil || p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s: %w", p.Status.Phase, errors.Join(err))
		}
		return nil
	})
}

// shows fails if a text lacks one of the words.
func (w *world) shows(text string, words ...string) {
	w.t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			w.t.Errorf("no %q in\n%s", word, text)
		}
	}
}

// TestUsersSeeDecisions runs the program with the permissions of its manifest. kubectl describe tells the
// owner of one pod in one line what will happen, and the owner of another pod what to change. The pool shows
// its last decisions and limits. explain says what would help, and doing that does help.
func TestUsersSeeDecisions(t *testing.T) {
	w := newWorld(t, setup{})
	const name = "gpuscale-autoscaler"
	for _, ns := range []string{system, "gpu-operator"} {
		w.must(w.Namespace(t.Context(), ns, nil))
	}
	w.must(w.Apply(t.Context(), "deploy/manifests/autoscaler.yaml"))
	kubeconfig, err := w.Cluster.ServiceAccountKubeconfig(t.Context(), system, name)
	w.must(err)
	address := testenv.FreeAddress(t)
	config := filepath.Join(t.TempDir(), "autoscaler.yaml")
	w.must(os.WriteFile(config, []byte("leaderElection: {enabled: false}\n"+w.groups()), 0o600)) // whole GPUs require no Prometheus
	testenv.Beside(t, proc.Spec{
		Name: name, Path: w.autoscaler(), Log: w.Cluster.LogFile(name), Args: []string{"--config=" + config, "--listen=" + address, "--kubeconfig=" + kubeconfig},
	})

	w.apply(w.objects("explained-pool.yaml")...)
	w.apply(w.objects("explained-pod.yaml", "NAME", "first", "TENANT", w.namespace())...)
	w.awaitEvent("first", "TriggeredScaleUp")
	described := w.kube("describe", "pod", "first")
	w.shows(described, "l40s 0→1, NoFreeSlice: "+w.namespace()+"/first requests a GPU", "a new node of l40s", "gpuscale-autoscaler")
	if strings.Contains(described, "WaitUpcomingNode") {
		t.Errorf("the pod's owner reads:\n%s", described)
	}
	w.isRunning("first")

	w.apply(w.objects("explained-pod.yaml", "NAME", "second", "TENANT", w.namespace())...)
	w.awaitEvent("second", "PoolAtMax")
	w.shows(w.kube("describe", "pod", "second"), "Warning  PoolAtMax", "l40s has 1 of 1 nodes. Raise the pool's max")
	w.await("the pool has its limit", func() error {
		if c := w.condition("l40s", "ScalingLimited"); !strings.Contains(c, "PoolAtMax") {
			return fmt.Errorf("%q", c)
		}
		return nil
	})
	w.shows(w.kube("describe", "gpunodepool", "l40s"), "Last Decisions", "scale-up", "ScalingLimited", "0→1: "+w.namespace()+"/first requests a GPU")

	w.shows(w.run(w.autoscaler(), "explain", "pod", w.namespace()+"/second", "--url", "http://"+address), "PoolAtMax", "raise max of pool l40s from 1 to 2", "then WaitUpcomingNode")
	snapshot := filepath.Join(t.TempDir(), "snapshot.txt")
	w.must(os.WriteFile(snapshot, []byte(w.kube("get", "--raw", "/debug/snapshot", "--server", "http://"+address)), 0o600))
	w.shows(w.run(w.autoscaler(), "plan", "-f", snapshot), "pod "+w.namespace()+"/second PoolAtMax")
	w.kube("patch", "gpunodepool", "l40s", "--type=merge", "-p", `{"spec":{"max":2}}`)
	w.isRunning("second")
}
