package chart

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// whole tests a gang in two sizes. Four pods fit nowhere: they are created and get no node. Then that gang is
// deleted, since kube-scheduler binds pods one by one and would give its pods the nodes of other pods. A gang
// of two pods gets two nodes and runs. file is the manifest, kind the gang's object, label the label of its
// pods, and made the minimum number of pods that are created of the large gang.
func (x *tale) whole(file, kind, label string, made int, words ...string) {
	x.t.Helper()
	large := fmt.Sprintf("%s=large", label)
	x.add(x.text(file, append(words, "NAME", "large", "PODS", "4", "WORKERS", "3")...))
	x.wait("pods of a gang that fits nowhere", func() error {
		n, all, err := x.phases(large, corev1.PodPending)
		if err == nil && (n < made || n != all) {
			err = fmt.Errorf("%d of %d pods are pending, want %d", n, all, made)
		}
		return err
	})
	x.reconciled()
	x.must(x.nodes(x.t.Context(), "gang", 0))
	x.must(x.Delete(x.t.Context(), testenv.Object(kind, guests, "large")))
	x.wait("the end of its pods", func() error { return x.count(large, 0, corev1.PodPending) })
	x.add(x.text(file, append(words, "NAME", "train", "PODS", "2", "WORKERS", "1")...))
	x.wait("a gang that fits", func() error { return x.count(label+"=train", 2, corev1.PodRunning) })
	x.must(x.nodes(x.t.Context(), "gang", 2))
}

// TestNeighbourJobSet: the pods of a JobSet get their nodes together or not at all.
func TestNeighbourJobSet(t *testing.T) {
	x, _ := begin(t)
	x.manifests(build.JobSet, "jobset", "jobset-webhook-service")
	x.pool()
	x.whole("jobset.yaml", "jobset.x-k8s.io/v1alpha2/JobSet", "jobset.sigs.k8s.io/jobset-name", 4)
}

// TestNeighbourLeaderWorkerSet: the leader and the workers of a group get their nodes together, though the
// workers are created after their leader.
func TestNeighbourLeaderWorkerSet(t *testing.T) {
	x, _ := begin(t)
	x.manifests(build.LeaderWorkerSet, "cmd", "lws-webhook-service")
	x.pool()
	x.whole("leaderworkerset.yaml", "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", "leaderworkerset.sigs.k8s.io/name", 1)
}

// TestNeighbourKueue: a job for which Kueue has reserved quota gets a node, and a job that waits for quota
// gets none. The ClusterQueue is a tenant.
func TestNeighbourKueue(t *testing.T) {
	x, b := begin(t)
	x.manifests(build.Kueue, "kueue", "kueue-webhook-service")
	x.pool()
	x.add(x.text("kueue.yaml"))
	x.add(x.text("kueue-job.yaml", "NAME", "first"))
	x.wait("the admitted job", func() error { return x.count("batch.kubernetes.io/job-name=first", 1, corev1.PodRunning) })
	x.add(x.text("kueue-job.yaml", "NAME", "second"))
	x.wait("the second job's Workload", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: "WorkloadList"})
		if err := b.Admin.List(t.Context(), list, client.InNamespace(guests)); err != nil {
			return err
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("%d Workloads", len(list.Items))
		}
		return nil
	})
	x.reconciled()
	x.must(x.nodes(t.Context(), "gang", 1))
	x.must(x.Delete(t.Context(), testenv.Object("batch/v1/Job", guests, "first")))
	x.wait("the second job, once it has the quota", func() error { return x.count("batch.kubernetes.io/job-name=second", 1, corev1.PodRunning) })
	x.wait("the ClusterQueue as a tenant", func() error {
		v, err := x.metric(`gpuscale_autoscaler_tenant_gpus{tenant="kueue/gpus",kind="guaranteed"}`)
		if err == nil && v != 2 {
			err = fmt.Errorf("%g GPUs guaranteed, want 2", v)
		}
		return err
	})
}

// poolArgs are Helm flags that make free nodes of the pool "gang" be removed at once.
var poolArgs = []string{"--set", "autoscaler.config.policy.scaleDownCooldown=1s"}

// pool creates the pool "gang". At the end of the test its nodes are removed before it is.
func (x *tale) pool() {
	x.t.Helper()
	x.reinstalled(x.t, poolArgs...)
	x.add(x.text("gang-pool.yaml"))
	x.cleanup(func(ctx context.Context) error {
		return until(ctx, "the end of the pool's nodes", func() error { return x.nodes(ctx, "gang", 0) })
	})
}

// count returns nil if exactly this number of pods have the labels, and all are in the phase.
func (x *tale) count(labels string, want int, phase corev1.PodPhase) error {
	n, all, err := x.phases(labels, phase)
	if err == nil && (n != want || all != want) {
		err = fmt.Errorf("%d of %d pods are %s, want %d", n, all, phase, want)
	}
	return err
}

func (x *tale) phases(labels string, phase corev1.PodPhase) (n, all int, err error) {
	name, value, _ := strings.Cut(labels, "=")
	var list corev1.PodList
	if err := x.Admin.List(x.t.Context(), &list, client.InNamespace(guests), client.MatchingLabels{name: value}); err != nil {
		return 0, 0, err
	}
	for _, p := range list.Items {
		if p.Status.Phase == phase {
			n++
		}
	}
	return n, len(list.Items), nil
}

// reconciled waits until the autoscaler has planned the current state several times.
func (x *tale) reconciled() {
	x.t.Helper()
	begin := time.Now()
	x.wait("a reconcile", func() error {
		at, err := x.metric("gpuscale_autoscaler_last_reconcile_timestamp_seconds")
		if err == nil && at < float64(begin.Add(5*time.Second).Unix()) {
			err = errNotYet
		}
		return err
	})
}

// manifests installs a project that is built like those of Kubernetes' batch working group.
func (x *tale) manifests(n build.Neighbour, program, webhooks string) {
	x.t.Helper()
	group := strings.TrimSuffix(webhooks, "-webhook-service")
	system := group + "-system"
	x.Run(x.t, testenv.Project{Neighbour: n, Program: program, Folder: "config/default", Namespace: system, Service: webhooks}, func(hook, certs string) proc.Spec {
		version, own := "v1alpha1", "false"
		var args []string
		if n.Name == build.Kueue.Name {
			// Without its own certificates it requires files in /etc.
			version, own = "v1beta2", "true"
			args = append(args, "--feature-gates=VisibilityOnDemand=false")
			x.mount(system, "kueue-webhook-server-cert", certs)
		}
		config := x.text("batch-config.yaml", "GROUP", group, "VERSION", version, "OWN", own, "PORT", hook, "CERTS", certs, "HEALTH", port(x.t))
		return proc.Spec{Args: append(args, "--config="+x.file("config.yaml", config))}
	})
}

// text returns a file of testdata/neighbours with words replaced.
func (x *tale) text(file string, words ...string) string {
	x.t.Helper()
	return testenv.Text(x.t, filepath.Join("testdata/neighbours", file), words...)
}

// file writes the text to a file that exists until the test ends.
func (x *tale) file(name, text string) string {
	x.t.Helper()
	path := filepath.Join(x.t.TempDir(), name)
	x.must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// mount acts as the kubelet: it writes the files of a Secret into the folder once the Secret has them.
func (x *tale) mount(namespace, name, dir string) {
	go func() {
		_ = until(x.t.Context(), "the certificates", func() error {
			var s corev1.Secret
			if err := x.Admin.Get(x.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &s); err != nil {
				return err
			}
			if len(s.Data["tls.crt"]) == 0 {
				return errNotYet
			}
			for name, text := range s.Data {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
					return err
				}
			}
			return nil
		})
	}()
}

// metric returns the value of the only series of a name in Prometheus.
func (x *tale) metric(name string) (float64, error) {
	v, err := testenv.Query(x.t.Context(), x.prometheus(), name)
	if err == nil && len(v) != 1 {
		err = fmt.Errorf("%s has %d series", name, len(v))
	}
	if err != nil {
		return 0, err
	}
	return v[0].Value, nil
}
