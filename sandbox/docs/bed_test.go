package docs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// bed is a cluster as docs/install.md leaves it, with something going on in it.
type bed struct {
	root    string
	dir     string
	bin     string // first on PATH of all commands
	cluster *cluster.Cluster
	admin   client.Client
	// Ports of the loopback where pods' programs really listen.
	adapter, autoscaler, exporter int
	setUp                         map[string]bool // commands that were run to make the bed, by place
}

var (
	sharedBed = sync.OnceValues(newBed)
	started   atomic.Bool
)

func TestMain(m *testing.M) {
	code := m.Run()
	if started.Load() {
		if b, err := sharedBed(); err == nil {
			b.stop()
		}
	}
	os.Exit(code)
}

func (b *bed) stop() {
	if b.cluster != nil {
		b.cluster.Stop()
	}
	_ = os.RemoveAll(b.dir)
}

func start(t *testing.T) *bed {
	t.Helper()
	if testing.Short() {
		t.Skip("needs the real control plane, which takes minutes to compile the first time")
	}
	if _, err := chart.New(root(t)); err != nil {
		t.Skip(err) // make test builds it first
	}
	b, err := sharedBed()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func root(t testing.TB) string {
	t.Helper()
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// The CRDs of whom the pages have objects of, as their modules have them.
var crds = []neighbours.Source{
	neighbours.ClusterAPI(),
	neighbours.Karpenter(),
	{Module: "github.com/prometheus-operator/prometheus-operator", Version: "v0.85.0", Files: []string{
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
	}},
	{Module: "github.com/cert-manager/cert-manager", Version: "v1.21.2", Files: []string{
		"deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml",
	}},
	{Module: "sigs.k8s.io/scheduler-plugins", Version: "v0.33.5", Files: []string{"config/crd/bases/scheduling.x-k8s.io_podgroups.yaml"}},
}

// namespaces that the pages speak of as there: whom a reader has already.
var namespaces = []string{"monitoring", "gpu-operator", "chat", "llm", "ml", "team"}

const system = "gpuscale-system"

func newBed() (_ *bed, err error) {
	started.Store(true)
	ctrllog.SetLogger(logr.Discard())
	b := &bed{setUp: map[string]bool{}}
	if b.root, err = build.FindRoot(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "docs-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			b.stop()
		}
	}()
	// What is compiled takes as long as it takes.
	binaries, err := build.All(context.Background(), build.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	if err := b.programs(context.Background(), binaries); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := b.startCluster(ctx, binaries); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"the neighbours' CRDs", b.installCRDs},
		{"namespaces", b.makeNamespaces},
		{"the chart, by docs/install.md", b.install},
		{"the world", b.makeWorld},
		{"the adapter", b.startAdapter},
		{"the autoscaler", b.startAutoscaler},
		{"pods", b.waitPods},
		{"what they say", b.serveMetrics},
	} {
		if err := part.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", part.what, err)
		}
	}
	return b, nil
}

// programs puts everything that commands begin with into one folder.
func (b *bed) programs(ctx context.Context, binaries build.Paths) error {
	b.bin = filepath.Join(b.dir, "bin")
	if err := os.Mkdir(b.bin, 0o755); err != nil {
		return err
	}
	ours, err := build.Programs(ctx, build.Options{Out: os.Stderr})
	if err != nil {
		return err
	}
	helm, err := chart.Tool(b.root, "helm")
	if err != nil {
		return err
	}
	for name, to := range map[string]string{
		"kubectl": binaries.Program("kubectl"), "promtool": binaries.Promtool, "helm": helm,
		"gpuscale-exporter": filepath.Join(ours, "exporter"), "gpuscale-adapter": filepath.Join(ours, "adapter"),
		"gpuscale-autoscaler": filepath.Join(ours, "autoscaler"), "gpuscale-report": filepath.Join(ours, "report"),
	} {
		if err := os.Symlink(to, filepath.Join(b.bin, name)); err != nil {
			return err
		}
	}
	boards := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(b.bin, "gpuscale-dashboards"), "./dashboards")
	boards.Dir = b.root
	if out, err := boards.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling gpuscale-dashboards: %w: %s", err, out)
	}
	return nil
}

// prometheusConfig scrapes our programs where they really listen.
const prometheusConfig = `
global: {scrape_interval: 1s}
scrape_configs:
- job_name: any
  honor_labels: true
  file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
`

// kubelet is what KWOK answers as the kubelet of its nodes: a log of one line for each
// container, commands that run on this machine, and ports of the loopback.
const kubelet = `---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec: {logs: [{logsFile: %[1]q, previousLogsFile: %[1]q}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: all}
spec: {execs: [{local: {workDir: %[2]q}}]}
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterPortForward
metadata: {name: all}
spec:
  forwards:
  - {ports: [9090], target: {address: 127.0.0.1, port: %[3]d}}
  - {ports: [9400], target: {address: 127.0.0.1, port: %[4]d}}
  - {ports: [9402], target: {address: 127.0.0.1, port: %[5]d}}
  - {ports: [6443], target: {address: 127.0.0.1, port: %[6]d}}
`

func (b *bed) startCluster(ctx context.Context, binaries build.Paths) (err error) {
	ports, err := freePorts(4)
	if err != nil {
		return err
	}
	b.adapter, b.autoscaler, b.exporter = ports[0], ports[1], ports[2]
	prometheus := ports[3]
	log := filepath.Join(b.dir, "container.log")
	if err := os.WriteFile(log, []byte("2026-01-01T00:00:00.000000000Z stderr F a container's log, as KWOK has it\n"), 0o600); err != nil {
		return err
	}
	extra := fmt.Sprintf(kubelet, log, b.dir, prometheus, b.exporter, b.autoscaler, b.adapter)
	b.cluster, err = cluster.Start(ctx, cluster.Options{
		Binaries: binaries, Parent: b.dir, Prometheus: []byte(prometheusConfig), PrometheusPort: prometheus,
		Stages: append(cluster.DefaultStages(), extra...),
		Log:    slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	b.admin, err = client.New(b.cluster.RESTConfig(), client.Options{})
	return err
}

func (b *bed) installCRDs(ctx context.Context) error {
	for _, s := range crds {
		if err := s.Install(ctx, b.admin); err != nil {
			return err
		}
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinitionList"})
	return until(ctx, "all CRDs are established", func() error {
		if err := b.admin.List(ctx, list); err != nil {
			return err
		}
		for _, crd := range list.Items {
			if !condition(crd, "Established") {
				return fmt.Errorf("%s is not", crd.GetName())
			}
		}
		return nil
	})
}

// condition says whether an object has it, and True.
func condition(o unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == kind && m["status"] == "True"
	})
}

func (b *bed) makeNamespaces(ctx context.Context) error {
	for _, name := range namespaces {
		if err := b.namespace(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// namespace makes one that pods can be made in: its account comes a moment later.
func (b *bed) namespace(ctx context.Context, name string) error {
	if err := b.admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	return until(ctx, "the account of namespace "+name, func() error {
		return b.admin.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
	})
}

// install does what docs/install.md says, word by word, with a Prometheus that is
// there: its first commands and the file that they name.
func (b *bed) install(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(b.root, "docs/install.md"))
	if err != nil {
		return err
	}
	w, err := b.newTypist(Parse("docs/install.md", string(text)))
	if err != nil {
		return err
	}
	defer w.close()
	for _, block := range w.page.Blocks {
		if kind, err := block.Kind(); err != nil || kind != Commands || !strings.Contains(block.Text, "helm install gpuscale") {
			continue
		}
		for _, c := range block.Commands() {
			b.setUp[c.place()] = true
			if out, err := w.bash(ctx, c.Text); err != nil {
				return fmt.Errorf("%s: %s: %w: %s", c.place(), c.Text, err, out)
			}
		}
		return nil
	}
	return errors.New("no block of docs/install.md has helm install gpuscale")
}

// makeWorld applies testdata/world.yaml, when the kinds in it are served.
func (b *bed) makeWorld(ctx context.Context) error {
	text, err := os.ReadFile("testdata/world.yaml")
	if err != nil {
		return err
	}
	objects, err := neighbours.Parse(text)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := until(ctx, "making "+o.GetKind()+" "+o.GetName(), func() error {
			err := client.IgnoreAlreadyExists(b.admin.Create(ctx, o))
			if err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
				return await.Final(err)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (b *bed) startAdapter(ctx context.Context) error {
	const door = "loopback"
	names := []string{door + "." + system + ".svc", "gpuscale-adapter." + system + ".svc", "localhost"}
	cert, key, _, err := b.cluster.ServingCert(names...)
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		"adapter.crt": cert, "adapter.key": key,
		"adapter.yaml": []byte("prometheus: {url: " + b.cluster.PrometheusURL() + "}\ninterval: 1s\nmaxAge: 10s\n"),
	} {
		if err := os.WriteFile(filepath.Join(b.dir, name), text, 0o600); err != nil {
			return err
		}
	}
	kubeconfig := b.cluster.Kubeconfig()
	if _, err := b.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-adapter", Path: filepath.Join(b.bin, "gpuscale-adapter"), Dir: b.dir, Log: b.cluster.LogFile("gpuscale-adapter"),
		Args: []string{
			"--config=adapter.yaml", "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(b.adapter),
			"--tls-cert-file=adapter.crt", "--tls-private-key-file=adapter.key",
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		},
	}); err != nil {
		return err
	}
	groups := []schema.GroupVersion{
		{Group: "custom.metrics.k8s.io", Version: "v1beta1"}, {Group: "custom.metrics.k8s.io", Version: "v1beta2"},
		{Group: "external.metrics.k8s.io", Version: "v1beta1"},
	}
	if err := b.cluster.RouteAPI(ctx, system, door, b.adapter, groups...); err != nil {
		return err
	}
	return b.cluster.WaitAPI(ctx, groups...)
}

// startAutoscaler lets it plan and write nothing: pages must find the world as it was.
func (b *bed) startAutoscaler(ctx context.Context) error {
	config := "prometheus: {url: " + b.cluster.PrometheusURL() + ", interval: 1s}\nleaderElection: {enabled: false}\n"
	if err := os.WriteFile(filepath.Join(b.dir, "autoscaler.yaml"), []byte(config), 0o600); err != nil {
		return err
	}
	_, err := b.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-autoscaler", Path: filepath.Join(b.bin, "gpuscale-autoscaler"), Dir: b.dir, Log: b.cluster.LogFile("gpuscale-autoscaler"),
		Args: []string{"--config=autoscaler.yaml", "--dry-run", "--kubeconfig=" + b.cluster.Kubeconfig(), "--listen=127.0.0.1:" + strconv.Itoa(b.autoscaler)},
	})
	return err
}

// waitPods waits for each workload's pods to run, but for those that testdata/world.yaml
// means to wait.
func (b *bed) waitPods(ctx context.Context) error {
	return until(ctx, "pods run", func() error {
		var pods corev1.PodList
		if err := b.admin.List(ctx, &pods); err != nil {
			return err
		}
		running := map[string]int{}
		for _, p := range pods.Items {
			if p.Status.Phase == corev1.PodRunning {
				running[p.Namespace+"/"+p.Labels["app.kubernetes.io/name"]]++
			} else if p.Annotations["docs.test/waits"] == "" {
				return fmt.Errorf("%s/%s is %s on %q", p.Namespace, p.Name, p.Status.Phase, p.Spec.NodeName)
			}
		}
		for _, name := range []string{"adapter", "autoscaler", "exporter"} {
			if running[system+"/gpuscale-"+name] == 0 {
				return fmt.Errorf("no pod of gpuscale-%s", name)
			}
		}
		return nil
	})
}

// until looks again and again, as long as the bed may take.
func until(ctx context.Context, what string, done func() error) error {
	if err := await.Until(ctx, func(context.Context) error { return done() }); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// freePorts are their programs' own until this process ends.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		var err error
		if ports[i], _, err = proc.ReservePort(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// pages of the checkout that pass a test, sorted.
func pages(t testing.TB, want func(path string) bool) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS(root(t)), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"testdata", "node_modules", "dist"}, name)) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".md") && want(path) {
			out = append(out, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
