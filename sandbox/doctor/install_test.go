package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// installed is the release's namespace: not the one that the documents have, since
// doctor has to find it.
const installed = "cards"

// Programs of ours that run here, by the names of their Deployments.
const (
	adapterName    = "gpuscale-adapter"
	autoscalerName = "gpuscale-autoscaler"
	exporterName   = "gpuscale-exporter"
)

// prometheusAccount is Prometheus' own, by which the adapter lets it in.
const prometheusAccount = "prometheus"

// release is what a user would install here. The ports are those of the processes.
func (b *bed) release() chart.Release {
	return chart.Release{Name: "gpuscale", Namespace: installed, Values: fmt.Sprintf(`
prometheus: {url: %q}
exporter: {resources: {}, nodeSelector: {}}
adapter: {port: %[2]d, servicePort: %[2]d, config: {interval: 1s, maxAge: 15s}}
autoscaler:
  port: %[3]d
  pools: {kwok: true, scale: [{apiGroup: example.org, resource: herds}]}
  config:
    quietInterval: 1s
    prometheus: {interval: 1s, maxAge: 15s}
    leaderElection: {leaseDuration: 4s, renewDeadline: 3s, retryPeriod: 1s}
monitoring:
  prometheusServiceAccount: {namespace: %[4]s, name: %[5]s}
`, b.cluster.PrometheusURL(), b.adapter, b.scaler, installed, prometheusAccount)}
}

func (b *bed) install(ctx context.Context) error {
	// Theirs until this process ends: programs are killed and started again here.
	var err error
	if b.adapter, _, err = proc.ReservePort(); err != nil {
		return err
	}
	if b.scaler, _, err = proc.ReservePort(); err != nil {
		return err
	}
	// Some are for faults to come: a namespace does nothing, and takes seconds to go.
	for name, level := range map[string]string{installed: "privileged", "gpu-operator": "", "team": "", "keda": "", "ration": ""} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if level != "" {
			ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": level}
		}
		if err := b.admin.Create(ctx, ns); err != nil {
			return err
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: prometheusAccount}}
	if err := b.admin.Create(ctx, account); err != nil {
		return err
	}
	if err := b.helm.Install(ctx, b.release()); err != nil {
		return err
	}
	// No network leads to a pod here: the Service's name is the loopback's, at the port
	// that the chart was told. The certificate is for the Service's name all the same.
	patch := `{"spec":{"type":"ExternalName","externalName":"localhost","selector":null,"clusterIP":null,"clusterIPs":null}}`
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: adapterName}}
	return b.admin.Patch(ctx, service, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// upgrade installs the release again, with further flags.
func (b *bed) upgrade(ctx context.Context, args ...string) error {
	r := b.release()
	r.Args = args
	return b.helm.Install(ctx, r)
}

// startPrograms runs adapter and autoscaler with the files and the account of their
// Deployments, and tells Prometheus where they are.
func (b *bed) startPrograms(ctx context.Context) error {
	if err := errors.Join(b.startAdapter(ctx), b.startAutoscaler(ctx)); err != nil {
		return err
	}
	files, err := b.files(ctx, adapterName, adapterName+"-tls")
	if err != nil {
		return err
	}
	return b.scrapePrograms(ctx, files["ca.crt"])
}

func (b *bed) startAdapter(ctx context.Context) error {
	files, err := b.files(ctx, adapterName, adapterName+"-tls")
	if err != nil {
		return err
	}
	if err := b.startProgram(ctx, adapterName, func(kubeconfig string) []string {
		return []string{
			"--config=" + files["config.yaml"], "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(b.adapter),
			"--tls-cert-file=" + files["tls.crt"], "--tls-private-key-file=" + files["tls.key"],
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		}
	}); err != nil {
		return err
	}
	return b.cluster.WaitAPI(ctx, schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta1"},
		schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta2"}, schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"})
}

func (b *bed) startAutoscaler(ctx context.Context) error {
	files, err := b.files(ctx, autoscalerName)
	if err != nil {
		return err
	}
	if err := b.startProgram(ctx, autoscalerName, func(kubeconfig string) []string {
		return []string{"--config=" + files["config.yaml"], "--listen=127.0.0.1:" + strconv.Itoa(b.scaler), "--kubeconfig=" + kubeconfig}
	}); err != nil {
		return err
	}
	return until(ctx, "waiting for the autoscaler", func() error {
		resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(b.scaler) + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return errors.New(resp.Status)
		}
		return nil
	})
}

func (b *bed) startProgram(ctx context.Context, name string, args func(kubeconfig string) []string) error {
	kubeconfig, err := b.cluster.ServiceAccountKubeconfig(ctx, installed, name)
	if err != nil {
		return err
	}
	_, err = b.cluster.Processes().Start(proc.Spec{
		Name: name, Path: filepath.Join(filepath.Dir(b.doctor), name), Args: args(kubeconfig), Log: b.cluster.LogFile(name),
	})
	return err
}

// files are what a Deployment's ConfigMap and Secrets hold, written down, by name.
func (b *bed) files(ctx context.Context, configMap string, secrets ...string) (map[string]string, error) {
	var c corev1.ConfigMap
	if err := b.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: configMap}, &c); err != nil {
		return nil, err
	}
	content := map[string][]byte{}
	for name, text := range c.Data {
		content[name] = []byte(text)
	}
	for _, secret := range secrets {
		var s corev1.Secret
		if err := b.admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: secret}, &s); err != nil {
			return nil, err
		}
		maps.Copy(content, s.Data)
	}
	dir := filepath.Join(b.cluster.Dir(), "files", configMap)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for name, text := range content {
		out[name] = filepath.Join(dir, name)
		// At once, as the kubelet does: somebody may be reading.
		if err := errors.Join(os.WriteFile(out[name]+".new", text, 0o600), os.Rename(out[name]+".new", out[name])); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pods of a Deployment or DaemonSet of ours.
func (b *bed) pods(ctx context.Context, name string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := b.admin.List(ctx, &list, client.InNamespace(installed), client.MatchingLabels{"app.kubernetes.io/name": name})
	return list.Items, err
}

// rolledOut says what of ours has no ready pods yet.
func (b *bed) rolledOut(ctx context.Context) error {
	var d appsv1.DeploymentList
	var s appsv1.DaemonSetList
	if err := errors.Join(b.admin.List(ctx, &d, client.InNamespace(installed)), b.admin.List(ctx, &s, client.InNamespace(installed))); err != nil {
		return err
	}
	for _, o := range d.Items {
		if o.Status.ReadyReplicas != *o.Spec.Replicas {
			return fmt.Errorf("%s has %d pods ready of %d", o.Name, o.Status.ReadyReplicas, *o.Spec.Replicas)
		}
	}
	for _, o := range s.Items {
		if o.Status.NumberReady == 0 || o.Status.NumberReady != o.Status.DesiredNumberScheduled {
			return fmt.Errorf("%s has %d pods ready of %d", o.Name, o.Status.NumberReady, o.Status.DesiredNumberScheduled)
		}
	}
	if len(d.Items) != 2 || len(s.Items) != 1 {
		return fmt.Errorf("%d Deployments and %d DaemonSets", len(d.Items), len(s.Items))
	}
	return nil
}

// soon is how long a thing may take that waits for scrapes and rounds, late one that
// waits for a program to start, too, on a busy machine.
const (
	soon = 40 * time.Second
	late = 90 * time.Second
)

// ignoreGone is for cleaning up.
func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// isThere is for what an earlier test has made.
func isThere(err error) bool { return apierrors.IsAlreadyExists(err) }

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }
