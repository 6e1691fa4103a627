package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// installed is the release's namespace. It differs from the one in the documentation, since doctor has to
// find it.
const installed = "gpus"

// Our programs that run here, by the names of their Deployments.
const (
	adapterName    = "gpuscale-adapter"
	autoscalerName = "gpuscale-autoscaler"
	exporterName   = "gpuscale-exporter"
)

// prometheusAccount is Prometheus' service account, which the adapter authorizes.
const prometheusAccount = "prometheus"

// release is what a user would install here. The ports are those of the processes.
func (b *env) release() chart.Release {
	return chart.Release{Name: "gpuscale", Namespace: installed, Values: fmt.Sprintf(`
image: {registry: registry.example}
prometheus: {url: %q, client: %s}
exporter: {resources: {}, nodeSelector: {}}
adapter: {enabled: true, port: %[3]d, servicePort: %[3]d, config: {interval: 1s, maxAge: 15s}}
autoscaler:
  enabled: true
  port: %[4]d
  pools: {scale: [{apiGroup: example.org, resource: herds}]}
  config:
    idleInterval: 1s
    externalGRPC: {%[5]s: {address: %[6]q}}
    prometheus: {interval: 1s, maxAge: 15s}
    leaderElection: {leaseDuration: 15s, renewDeadline: 12s, retryPeriod: 1s}
monitoring:
  prometheusServiceAccount: {namespace: %[7]s, name: %[8]s}
`, b.prometheus(), b.source.client(), b.adapter, b.scaler, nodegroups.Name, b.groups, installed, prometheusAccount)}
}

func (b *env) install(ctx context.Context) error {
	// The ports are reserved until this process ends, since programs are killed and restarted.
	var err error
	if b.adapter, err = proc.ReservePort(); err == nil {
		b.scaler, err = proc.ReservePort()
	}
	if err == nil {
		b.groups, b.stopGroups, err = nodegroups.New(b.Admin, b.Admin).Serve()
	}
	if err != nil {
		return err
	}
	// Some namespaces are for later faults: an empty namespace has no effect, and deleting one takes seconds.
	for name, level := range map[string]string{installed: "privileged", "gpu-operator": "", "team": "", "keda": "", "ration": ""} {
		if err := b.namespace(ctx, name, level); err != nil {
			return err
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: prometheusAccount}}
	if err := b.Admin.Create(ctx, account); err != nil {
		return err
	}
	return b.helmInstall(ctx)
}

// helmInstall installs the release and makes the API server reach the adapter.
func (b *env) helmInstall(ctx context.Context) error {
	if err := b.helm.Install(ctx, b.release()); err != nil {
		return err
	}
	// Pods cannot be reached over the network here. The Service becomes an alias of the loopback, at the port in the
	// chart's values. The certificate is still for the Service's name.
	patch := `{"spec":{"type":"ExternalName","externalName":"localhost","selector":null,"clusterIP":null,"clusterIPs":null}}`
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: installed, Name: adapterName}}
	return b.Admin.Patch(ctx, service, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// namespace creates a namespace, optionally with a Pod Security level to enforce.
func (p *plane) namespace(ctx context.Context, name, level string) error {
	if level == "" {
		return p.Namespace(ctx, name, nil)
	}
	return p.Namespace(ctx, name, map[string]string{"pod-security.kubernetes.io/enforce": level})
}

// upgrade installs the release again with additional flags.
func (b *env) upgrade(ctx context.Context, args ...string) error {
	r := b.release()
	r.Args = args
	return b.helm.Install(ctx, r)
}

// startPrograms runs adapter and autoscaler with the arguments, files and accounts of their Deployments, and
// adds them to Prometheus' targets.
func (b *env) startPrograms(ctx context.Context) error {
	if err := errors.Join(b.startAdapter(ctx), b.startAutoscaler(ctx)); err != nil {
		return err
	}
	return b.scrapePrograms(ctx)
}

// startAdapter waits until the API server trusts the adapter. It gives the adapter's CA to Prometheus.
func (b *env) startAdapter(ctx context.Context) error {
	if err := b.startAdapterProcess(ctx); err != nil {
		return err
	}
	err := b.Cluster.WaitAPI(ctx, schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta1"},
		schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1beta2"}, schema.GroupVersion{Group: "external.metrics.k8s.io", Version: "v1beta1"})
	if err != nil {
		return err
	}
	return until(ctx, "the adapter's own CA", func() error { // the published CA may be of the previous process
		var published corev1.ConfigMap
		if err := b.Admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: adapterName + "-ca"}, &published); err != nil {
			return client.IgnoreNotFound(err) // with a certificate from a Secret the test has written its CA
		}
		ca, trusted := []byte(published.Data["ca.crt"]), x509.NewCertPool()
		trusted.AppendCertsFromPEM(ca)
		conn, err := tls.Dial("tcp", "127.0.0.1:"+strconv.Itoa(b.adapter), &tls.Config{RootCAs: trusted, ServerName: adapterName + "." + installed + ".svc"})
		if err != nil {
			return err
		}
		return errors.Join(conn.Close(), b.writeCA(ca))
	})
}

func (b *env) startAdapterProcess(ctx context.Context) error {
	return b.startProgram(ctx, adapterName, "--bind-address=127.0.0.1", "--kubeconfig=%s")
}

func (b *env) startAutoscaler(ctx context.Context) error {
	if err := b.startProgram(ctx, autoscalerName, "--kubeconfig=%s"); err != nil {
		return err
	}
	return b.Cluster.WaitHTTP(ctx, autoscalerName, "http://127.0.0.1:"+strconv.Itoa(b.scaler)+"/readyz")
}

// restartAutoscaler applies a change of its Deployment. Its account may have other permissions then.
func (b *env) restartAutoscaler(ctx context.Context) error {
	_ = b.Cluster.StopProgram(autoscalerName) // it may have ended itself: a leader does so without permission for its Lease
	return b.startAutoscaler(ctx)
}

// startProgram runs what the pods of a Deployment would run. extra are arguments that a process requires and
// a pod does not; %s in them is the account's kubeconfig.
func (b *env) startProgram(ctx context.Context, name string, extra ...string) error {
	kubeconfig, err := b.Cluster.ServiceAccountKubeconfig(ctx, installed, name)
	if err != nil {
		return err
	}
	args, _, err := b.mount(ctx, name)
	if err != nil {
		return err
	}
	for _, arg := range extra {
		args = append(args, strings.ReplaceAll(arg, "%s", kubeconfig))
	}
	_, err = b.Cluster.Processes().Start(proc.Spec{Name: name, Path: filepath.Join(b.Programs, name), Args: args, Log: b.Cluster.LogFile(name)})
	return err
}

// mount writes the current content of the volumes of a Deployment's pods. It returns the arguments with the
// local paths, and the paths by file name.
func (b *env) mount(ctx context.Context, name string) (args []string, files map[string]string, err error) {
	var d appsv1.Deployment
	if err := b.Admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: name}, &d); err != nil {
		return nil, nil, err
	}
	spec := d.Spec.Template.Spec
	if spec.ServiceAccountName != name || spec.AutomountServiceAccountToken == nil || !*spec.AutomountServiceAccountToken {
		return nil, nil, fmt.Errorf("pods of %s have no token of the account %s", name, name)
	}
	return mounted(spec, filepath.Join(b.Cluster.Dir(), "files", name), func(v corev1.Volume) (map[string][]byte, error) {
		out := map[string][]byte{}
		var c corev1.ConfigMap
		var s corev1.Secret
		switch {
		case v.ConfigMap != nil:
			err := b.Admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: v.ConfigMap.Name}, &c)
			for name, text := range c.Data {
				out[name] = []byte(text)
			}
			return out, err
		case v.Secret != nil:
			err := b.Admin.Get(ctx, client.ObjectKey{Namespace: installed, Name: v.Secret.SecretName}, &s)
			return s.Data, err
		}
		return out, nil
	})
}

// pods returns the pods of one of our Deployments or DaemonSets.
func (b *env) pods(ctx context.Context, name string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := b.Admin.List(ctx, &list, client.InNamespace(installed), client.MatchingLabels{"app.kubernetes.io/name": name})
	return list.Items, err
}

// rolledOut returns an error while one of our workloads has no ready pods.
func (b *env) rolledOut(ctx context.Context) error {
	var d appsv1.DeploymentList
	var s appsv1.DaemonSetList
	if err := errors.Join(b.Admin.List(ctx, &d, client.InNamespace(installed)), b.Admin.List(ctx, &s, client.InNamespace(installed))); err != nil {
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

func keyOf(o client.Object) client.ObjectKey { return client.ObjectKeyFromObject(o) }
