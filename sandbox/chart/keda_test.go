package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourKEDA: the adapter answers external metrics, and forwards KEDA's own to KEDA (docs/adapter.md).
func TestNeighbourKEDA(t *testing.T) {
	const namespace, service = "keda", "keda-operator-metrics-apiserver"
	x, b := begin(t)
	operator, adapter := b.neighbour(t, build.KEDA, "operator"), b.neighbour(t, build.KEDA, "adapter")
	x.crds(build.KEDA, "config/crd/bases/*.yaml")
	certs, metrics, at := t.TempDir(), testenv.FreeAddress(t), port(t)
	x.mount(namespace, "kedaorg-certs", certs)
	env := []string{"KUBECONFIG=" + b.Cluster.Kubeconfig(), "WATCH_NAMESPACE=", "POD_NAMESPACE=" + namespace, "KEDA_CLUSTER_OBJECT_NAMESPACE=" + namespace}
	spec := proc.Spec{Name: "keda-operator", Path: operator, Env: env, Args: []string{
		"--cert-dir=" + certs, "--enable-cert-rotation=true", "--metrics-server-service-name=" + service,
		"--enable-apiservice-patching=false", "--enable-webhook-patching=false",
		"--metrics-service-bind-address=" + metrics, "--metrics-bind-address=" + testenv.FreeAddress(t), "--health-probe-bind-address=" + testenv.FreeAddress(t),
	}}
	// KEDA's operator exits after it has created its certificates, and expects to be restarted.
	first := exec.CommandContext(t.Context(), spec.Path, spec.Args...)
	first.Env = append(os.Environ(), env...)
	if out, err := first.CombinedOutput(); err != nil {
		t.Fatalf("KEDA's operator: %v: %s", err, out)
	}
	b.beside(t, spec)
	x.wait("KEDA's certificates", func() error { _, err := os.Stat(filepath.Join(certs, "tls.crt")); return err })
	kubeconfig := b.Cluster.Kubeconfig()
	b.beside(t, proc.Spec{Name: "keda-adapter", Path: adapter, Env: env, Args: []string{
		"--secure-port=" + at, "--bind-address=127.0.0.1", "--port=" + port(t), "--cert-dir=" + certs, "--tls-cert-file=" + filepath.Join(certs, "tls.crt"), "--tls-private-key-file=" + filepath.Join(certs, "tls.key"),
		"--client-ca-file=" + filepath.Join(certs, "ca.crt"), "--kubeconfig=" + kubeconfig, "--lister-kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--metrics-service-address=" + metrics, "--metrics-service-grpc-authority=keda-operator.keda.svc",
	}})
	x.wait("KEDA's adapter", func() error { return dial("127.0.0.1:" + at) })

	x.add(x.text("keda.yaml"))
	token, err := b.Cluster.Token(t.Context(), installed, adapterName)
	x.must(err)
	tokenFile := x.file("token", token)
	b.reinstalled(t, "--set-json", fmt.Sprintf(`adapter.config.forward={"external":{"url":"https://127.0.0.1:%s","serverName":"%s.%s.svc","caFile":%q,"tokenFile":%q}}`,
		at, service, namespace, filepath.Join(certs, "ca.crt"), tokenFile))
	x.add(x.text("scaledobject.yaml", "PROMETHEUS", b.Cluster.PrometheusURL()))
	x.wait("KEDA's HPA has scaled", func() error {
		var d appsv1.Deployment
		if err := x.Admin.Get(t.Context(), client.ObjectKey{Namespace: guests, Name: "worker"}, &d); err != nil {
			return err
		}
		if d.Status.ReadyReplicas != 2 {
			return fmt.Errorf("%d pods are ready, want 2", d.Status.ReadyReplicas)
		}
		return nil
	})
	// Our metrics are answered beside KEDA's, and doctor recognizes both.
	b.allWell(t)
	if raw, err := b.get(t, "/apis/external.metrics.k8s.io/v1beta1"); err != nil || !strings.Contains(string(raw), "queue_depth") {
		t.Errorf("our metrics are not listed: %s, %v", raw, err)
	}
}
