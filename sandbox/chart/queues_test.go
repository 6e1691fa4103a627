package chart

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// gangPool is where the pods of queues and gangs run.
const gangPool = `
apiVersion: gpuscale.io/v1alpha1
kind: GPUNodePool
metadata: {name: gang}
spec:
  min: 0
  max: 3
  provider: {externalGRPC: {name: kwok, nodeGroup: gang}}
  template: {product: NVIDIA-H100-80GB-HBM3, gpus: 2, cpu: "64", memory: 512Gi}
  scaleDown: {idleAfter: 1s}
`

// gangPod is the template of a pod that takes a node of the pool.
const gangPod = `{spec: {restartPolicy: Never, nodeSelector: {gpuscale.io/pool: gang}, containers: [{name: train, image: train, resources: {limits: {nvidia.com/gpu: "2"}}}]}}`

// aJobSet of one job with as many pods.
func aJobSet(name string, pods int) string {
	return fmt.Sprintf(`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {namespace: guests, name: %s}
spec:
  replicatedJobs:
  - name: workers
    template: {spec: {parallelism: %[2]d, completions: %[2]d, backoffLimit: 0, template: %[3]s}}
`, name, pods, gangPod)
}

// TestNeighbourJobSet: the pods of a JobSet get their nodes together, or none.
func TestNeighbourJobSet(t *testing.T) {
	x, _ := begin(t)
	x.manifests(build.JobSet, "jobset", "jobset-webhook-service")
	x.pool()
	x.add(aJobSet("large", 4))
	x.wait("pods of a gang that fits nowhere", func() error { return x.count("jobset.sigs.k8s.io/jobset-name=large", 4, corev1.PodPending) })
	x.reconciled()
	x.must(x.nodes(t.Context(), "gang", 0))
	// kube-scheduler binds pods one by one, and would give these the others' nodes.
	x.must(x.Delete(t.Context(), testenv.Object("jobset.x-k8s.io/v1alpha2/JobSet", guests, "large")))
	x.wait("the end of its pods", func() error { return x.count("jobset.sigs.k8s.io/jobset-name=large", 0, corev1.PodPending) })
	x.add(aJobSet("train", 2))
	x.wait("a gang that fits", func() error { return x.count("jobset.sigs.k8s.io/jobset-name=train", 2, corev1.PodRunning) })
	x.must(x.nodes(t.Context(), "gang", 2))
}

// TestNeighbourLeaderWorkerSet: the leader and the workers of a group get their nodes
// together.
func TestNeighbourLeaderWorkerSet(t *testing.T) {
	x, _ := begin(t)
	x.manifests(build.LeaderWorkerSet, "cmd", "lws-webhook-service")
	x.pool()
	group := func(name string, size int) string {
		return fmt.Sprintf(`
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {namespace: guests, name: %s}
spec:
  replicas: 1
  leaderWorkerTemplate: {size: %d, workerTemplate: %s}
`, name, size, strings.Replace(gangPod, "restartPolicy: Never", "restartPolicy: Always", 1))
	}
	x.add(group("large", 4))
	x.wait("the leader of a group that fits nowhere", func() error {
		return x.atLeast("leaderworkerset.sigs.k8s.io/name=large", 1, corev1.PodPending)
	})
	x.reconciled()
	x.must(x.nodes(t.Context(), "gang", 0))
	x.must(x.Delete(t.Context(), testenv.Object("leaderworkerset.x-k8s.io/v1/LeaderWorkerSet", guests, "large")))
	x.wait("the end of its pods", func() error { return x.count("leaderworkerset.sigs.k8s.io/name=large", 0, corev1.PodPending) })
	x.add(group("serve", 2))
	x.wait("a group that fits", func() error {
		return x.count("leaderworkerset.sigs.k8s.io/name=serve", 2, corev1.PodRunning)
	})
	x.must(x.nodes(t.Context(), "gang", 2))
}

// kueues are the objects of an administrator: GPUs for one job.
const kueues = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gang}
spec: {nodeLabels: {gpuscale.io/pool: gang}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: gang, resources: [{name: nvidia.com/gpu, nominalQuota: "2"}]}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {namespace: guests, name: queue}
spec: {clusterQueue: gpus}
`

func queued(name string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {namespace: guests, name: %s, labels: {kueue.x-k8s.io/queue-name: queue}}
spec: {template: %s}
`, name, gangPod)
}

// TestNeighbourKueue: a job whose quota Kueue has reserved gets a node, one that waits
// for its quota gets none, and the ClusterQueue is a tenant.
func TestNeighbourKueue(t *testing.T) {
	x, b := begin(t)
	x.manifests(build.Kueue, "kueue", "kueue-webhook-service")
	x.pool()
	x.add(kueues)
	x.add(queued("first"))
	x.wait("the admitted job", func() error { return x.count("batch.kubernetes.io/job-name=first", 1, corev1.PodRunning) })
	x.add(queued("second"))
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
	v, err := x.metric(`gpuscale_autoscaler_tenant_gpus{tenant="kueue/gpus",kind="guaranteed"}`)
	if err != nil || v != 2 {
		t.Errorf("the ClusterQueue as a tenant has %g GPUs guaranteed, want 2: %v", v, err)
	}
}

// pool makes the pool gang; its nodes go before it does.
func (x *tale) pool() {
	x.t.Helper()
	x.reinstalled(x.t, "--set", "autoscaler.config.policy.scaleDownCooldown=1s")
	x.add(gangPool)
	x.cleanup(func(ctx context.Context) error {
		return until(ctx, "the end of the pool's nodes", func() error { return x.nodes(ctx, "gang", 0) })
	})
}

// count reports whether as many pods, and no others, have the labels and the phase.
func (x *tale) count(labels string, want int, phase corev1.PodPhase) error {
	n, all, err := x.phases(labels, phase)
	if err == nil && (n != want || all != want) {
		err = fmt.Errorf("%d of %d pods are %s, want %d", n, all, phase, want)
	}
	return err
}

func (x *tale) atLeast(labels string, want int, phase corev1.PodPhase) error {
	n, _, err := x.phases(labels, phase)
	if err == nil && n < want {
		err = fmt.Errorf("%d pods are %s, want %d", n, phase, want)
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

// reconciled waits until the autoscaler has decided several times about what is there now.
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

// manifests installs a project as its kustomization says, and runs its program in place
// of its Deployment's pod.
func (x *tale) manifests(n build.Neighbour, program, webhooks string) {
	x.t.Helper()
	path := x.neighbour(x.t, n, program)
	module, err := n.Dir(x.t.Context())
	x.must(err)
	cmd := exec.CommandContext(x.t.Context(), x.Binaries.Program("kubectl"), "kustomize", ".")
	cmd.Dir = filepath.Join(module, "config/default")
	text, err := cmd.Output()
	x.must(err)
	objects, err := neighbours.Parse(text)
	x.must(err)
	system := strings.TrimSuffix(webhooks, "-webhook-service") + "-system"
	hook, certs := port(x.t), x.t.TempDir()
	cert, key, ca, err := x.Cluster.ServingCert(webhooks + "." + system + ".svc")
	x.must(err)
	for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		x.must(os.WriteFile(filepath.Join(certs, name), text, 0o600))
	}
	var asks []*unstructured.Unstructured
	for _, o := range objects {
		switch o.GetKind() {
		case "Deployment", "APIService":
			continue
		case "Service":
			if o.GetName() == webhooks {
				o.Object["spec"] = map[string]any{"type": "ExternalName", "externalName": "localhost"}
			}
		case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			asks = append(asks, o)
		}
		clientConfigs(o.Object, hook, base64.StdEncoding.EncodeToString(ca))
		x.must(x.CreateObject(x.t.Context(), o))
		x.cleanup(func(ctx context.Context) error { return x.Delete(ctx, o.DeepCopy()) })
	}
	group, version, own := strings.TrimSuffix(webhooks, "-webhook-service"), "v1alpha1", false
	args := []string{}
	if n.Name == build.Kueue.Name {
		// Without certificates of its own it requires files in /etc.
		version, own = "v1beta2", true
		args = append(args, "--feature-gates=VisibilityOnDemand=false")
		x.mount(system, "kueue-webhook-server-cert", certs)
	}
	config := fmt.Sprintf(`
apiVersion: config.%s.x-k8s.io/%s
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: %t}
webhook: {port: %s, certDir: %s}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: "127.0.0.1:%s"}
`, group, version, own, hook, certs, port(x.t))
	file := filepath.Join(x.t.TempDir(), "config.yaml")
	x.must(os.WriteFile(file, []byte(config), 0o600))
	x.beside(x.t, proc.Spec{Name: program, Path: path, Args: append(args, "--config="+file), Env: []string{"KUBECONFIG=" + x.Cluster.Kubeconfig()}})
	// What asks the program goes before it.
	x.cleanup(func(ctx context.Context) error {
		var errs []error
		for _, o := range asks {
			errs = append(errs, x.Delete(ctx, o.DeepCopy()))
		}
		return errors.Join(errs...)
	})
	x.wait("the webhooks", func() error { return dial("127.0.0.1:" + hook) })
}

// clientConfigs leads what asks a Service of webhooks to the port.
func clientConfigs(in any, port, ca string) {
	switch in := in.(type) {
	case []any:
		for _, v := range in {
			clientConfigs(v, port, ca)
		}
	case map[string]any:
		if c, ok := in["clientConfig"].(map[string]any); ok {
			if service, ok := c["service"].(map[string]any); ok {
				n, _ := strconv.ParseInt(port, 10, 64)
				service["port"], c["caBundle"] = n, ca
			}
		}
		for _, v := range in {
			clientConfigs(v, port, ca)
		}
	}
}

// mount plays the kubelet: a Secret's files are in the folder once it has them.
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

// metric is the value of the one series of a name in Prometheus.
func (x *tale) metric(name string) (float64, error) {
	resp, err := http.Get(x.prometheus() + "/api/v1/query?query=" + url.QueryEscape(name))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if len(answer.Data.Result) != 1 {
		return 0, fmt.Errorf("%s has %d series", name, len(answer.Data.Result))
	}
	text, _ := answer.Data.Result[0].Value[1].(string)
	return strconv.ParseFloat(text, 64)
}
