//go:build linux

package node_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/deploy/chart"
	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/node/image"
	"github.com/gpuscale/gpuscale/sandbox/node/nodetest"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// installed is the release's namespace.
const installed = "gpuscale"

// scrapes is Prometheus' configuration. The targets are in files beside it.
const scrapes = `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: exporter
  file_sd_configs: [{files: [exporter.json], refresh_interval: 1s}]
`

// dcgm is the state of the machine that the exporter reads: one GPU.
var dcgm = fakenvml.State{Driver: "580.95.05", GPUs: []fakenvml.GPU{{
	UUID: "GPU-5b6ff1c1-8d0b-4a4c-9d0e-000000000001", Name: "NVIDIA H100 80GB HBM3", PCIBusID: "00000000:07:00.0", MemoryMiB: 81559,
	Values: fakedcgm.Fields(map[uint16]float64{203: 50, 1001: 0.5, 250: 81559, 251: 40000, 252: 41559}),
}}}

// TestChart installs the chart with Helm on a real node, which runs its pods.
func TestChart(t *testing.T) {
	nodetest.Only(t)
	c := newInstallation(t)
	c.state = t.TempDir()
	c.must(dcgm.Write(filepath.Join(c.state, "dcgm.state")))
	library, err := fakedcgm.Build(t.Context(), filepath.Join(c.cache(), "fakedcgm"))
	c.must(err)
	c.startNode(node.Options{
		Labels: map[string]string{"nvidia.com/gpu.present": "true"},
		Mounts: []node.Mount{{Source: library, Target: "/opt/dcgm", ReadOnly: true}, {Source: c.state, Target: "/opt/state", ReadOnly: true}},
	})
	c.load("exporter", "adapter", "autoscaler", "report")
	c.values = ofTheNode + `
adapter: {enabled: true, config: {interval: 1s, maxAge: 15s}}
autoscaler: {enabled: true, config: {idleInterval: 1s, prometheus: {interval: 1s, maxAge: 15s}}}
report: {enabled: true}
`
	c.install()
	t.Run("all pods are Ready and stay so", c.with(c.allReady))
	t.Run("the API server reaches the adapter", c.with(c.apis))
	t.Run("the exporter reads the GPU", c.with(c.exporter))
	t.Run("nothing logs an error", c.with(c.noErrors))
	t.Run("a report", c.with(c.report))
	t.Run("an adapter that is deleted comes back", c.with(c.adapterDeleted))
	t.Run("a leader that is deleted is succeeded", c.with(c.leaderDeleted))
	t.Run("a driver that hangs makes the exporter unready, not new", c.with(c.driverHangs))
	t.Run("a port is forwarded", c.with(c.portForward))
	t.Run("an uninstalled release leaves no pod", c.with(c.uninstalled))
	for _, v := range c.variants() {
		t.Run(v.Name, c.with(func() { c.variant(v) }))
	}
	t.Run("the exporter writes about its node", c.with(c.ownNode))
}

// ofTheNode makes the exporter read the DCGM fake of the node.
const ofTheNode = `
exporter:
  source: dcgm
  dcgmLibraryDir: /opt/dcgm
  extraEnv: [{name: ` + fakenvml.EnvState + `, value: /host/state/dcgm.state}]
  extraVolumes: [{name: state, hostPath: {path: /opt/state, type: Directory}}]
  extraVolumeMounts: [{name: state, mountPath: /host/state, readOnly: true}]
`

type installation struct {
	trial
	helm chart.Helm
	url  string // Prometheus' URL for pods
	// values are chart values in addition to images and Prometheus.
	values string
	// state is the folder with the GPU's state file.
	state string
	// scraped is the name of the exporter pod that Prometheus scrapes.
	scraped string
}

// newInstallation starts a control plane with a Prometheus, and creates the release's namespaces.
func newInstallation(t *testing.T) *installation {
	t.Helper()
	env := nodetest.Env(t.Context(), t, testenv.Options{Prometheus: scrapes, Programs: true})
	helm, err := chart.New(env.Root)
	if err != nil {
		t.Skip(err)
	}
	helm.Kubeconfig = env.Cluster.Kubeconfig()
	c := &installation{helm: helm, trial: trial{T: t, env: env, namespace: installed}}
	for _, name := range []string{installed, "gpu-operator"} {
		c.must(env.Namespace(t.Context(), name, nil))
	}
	return c
}

// cache is the folder with the compiled programs.
func (c *installation) cache() string {
	c.Helper()
	folder, err := build.Folder(build.Options{})
	c.must(err)
	return folder
}

// startNode starts a node whose pods can reach Prometheus.
func (c *installation) startNode(o node.Options) {
	c.Helper()
	u, err := url.Parse(c.env.Cluster.PrometheusURL())
	c.must(err)
	port, err := strconv.Atoi(u.Port())
	c.must(err)
	o.Ports = []int{port}
	c.node = nodetest.Start(c.Context(), c, c.env, o)
	c.url = fmt.Sprintf("http://%s:%d", c.node.Address(), port)
}

// load loads images of our programs.
func (c *installation) load(programs ...string) {
	c.Helper()
	for _, p := range programs {
		i, err := image.Program("gpuscale-"+p+":trial", filepath.Join(c.env.Programs, "gpuscale-"+p))
		c.must(err)
		c.must(c.node.Load(c.Context(), i))
	}
}

// install installs the chart with Helm and waits until all pods are Ready.
func (c *installation) install() {
	c.Helper()
	if err := c.tryInstall(); err != nil {
		c.Fatalf("%v\n%s", err, c.describe())
	}
}

func (c *installation) tryInstall(args ...string) error {
	c.Helper()
	return c.helm.Install(c.Context(), chart.Release{Name: "gpuscale", Namespace: installed, Args: append([]string{"--wait", "--timeout", "2m"}, args...), Values: `
image: {tag: trial, pullPolicy: Never}
prometheus: {url: ` + c.url + `}
` + c.values})
}

// describe returns what kubectl shows of the release, for an error.
func (c *installation) describe() string {
	pods, _ := c.kubectl("get", "pods", "-o", "wide")
	events, _ := c.kubectl("get", "events")
	return pods + "\n" + events
}

func (c *installation) pods() []corev1.Pod {
	c.Helper()
	var list corev1.PodList
	require.NoError(c, c.env.Admin.List(c.Context(), &list, client.InNamespace(installed)))
	return list.Items
}

func (c *installation) allReady() {
	want := map[string]int{"exporter": 1, "adapter": 2, "autoscaler": 2}
	for _, p := range c.pods() {
		c.podReady(p.Name)
		want[p.Labels["app.kubernetes.io/component"]]--
		for _, s := range p.Status.ContainerStatuses {
			if s.RestartCount != 0 {
				c.Errorf("%s was started %d times: %+v", p.Name, s.RestartCount+1, s.LastTerminationState)
			}
		}
	}
	for component, n := range want {
		if n != 0 {
			c.Errorf("%d pods of %s too few (below 0: too many)", n, component)
		}
	}
}

func (c *installation) apis() {
	for _, name := range []string{"v1beta2.custom.metrics.k8s.io", "v1beta1.external.metrics.k8s.io"} {
		c.await("APIService "+name, func() error { return c.available(name) })
	}
	if out, err := c.kubectl("get", "--raw", "/apis/external.metrics.k8s.io/v1beta1"); err != nil || !strings.Contains(out, "queue_depth") {
		c.Errorf("the external metrics: %s, %v", out, err)
	}
}

func (c *installation) available(name string) error {
	api := testenv.Object("apiregistration.k8s.io/v1/APIService", "", name)
	if err := c.env.Admin.Get(c.Context(), client.ObjectKeyFromObject(api), api); err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(api.Object, "status", "conditions")
	for _, condition := range conditions {
		if m := condition.(map[string]any); m["type"] == "Available" && m["status"] == "True" {
			return nil
		}
	}
	return fmt.Errorf("its conditions: %v", conditions)
}

// scrape makes Prometheus scrape the exporter's pod.
func (c *installation) scrape() {
	c.Helper()
	pod := c.the("exporter")
	c.scraped = pod.Name
	at, err := c.node.Expose(pod.Status.PodIP + ":9400")
	c.must(err)
	text, err := json.Marshal([]any{map[string]any{"targets": []string{at}, "labels": map[string]string{"namespace": installed, "pod": pod.Name}}})
	c.must(err)
	c.must(os.WriteFile(filepath.Join(c.env.Cluster.PrometheusDir(), "exporter.json"), text, 0o644))
}

func (c *installation) exporter() {
	c.scrape()
	c.await("the GPU in Prometheus", func() error {
		series, err := testenv.Query(c.Context(), c.env.Cluster.PrometheusURL(), fmt.Sprintf("DCGM_FI_DEV_GPU_UTIL{UUID=%q}", dcgm.GPUs[0].UUID))
		if err == nil && len(series) == 0 {
			err = errors.New("no series")
		}
		return err
	})
}

// harmless lists texts in error logs of libraries that are no fault. kube-aggregator checks an APIService
// with five requests at once, and closes each answer after its status, before its body. If two replicas
// create the Lease at the same time, one of them fails.
var harmless = []string{"http2: stream closed", "http: Handler timeout", "Timeout or abort while handling", "Post-timeout activity", "Error initially creating lease lock"}

func (c *installation) noErrors() {
	for _, p := range c.pods() {
		out, err := c.kubectl("logs", p.Name)
		if err != nil {
			c.Error(err)
		}
		dropped := 0
		for line := range strings.Lines(out) {
			if !strings.Contains(line, "level=ERROR") {
				continue
			}
			if slices.ContainsFunc(harmless, func(a string) bool { return strings.Contains(line, a) }) {
				dropped++
				continue
			}
			c.Errorf("%s: %s", p.Name, line)
		}
		if !strings.Contains(out, "level=INFO") {
			c.Errorf("%s logs nothing that could be judged: %q", p.Name, out)
		}
		if dropped > 0 {
			c.Logf("%s has logged %d harmless errors", p.Name, dropped)
		}
	}
}

// report runs the CronJob once, with a Prometheus that has hardly any data.
func (c *installation) report() {
	_, err := c.kubectl("create", "job", "first", "--from=cronjob/gpuscale-report")
	require.NoError(c, err)
	c.await("the Job", func() error {
		out, err := c.kubectl("get", "job", "first", "-o", "jsonpath={.status.conditions[*].type} {.status.failed}")
		switch {
		case err != nil:
			return err
		case strings.Contains(out, "Complete"):
			return nil
		case strings.Contains(out, "Failed"):
			logs, _ := c.kubectl("logs", "job/first")
			return await.Final(fmt.Errorf("it has failed: %s", logs))
		}
		return errors.New(out)
	})
}

func (c *installation) adapterDeleted() {
	victim := c.the("adapter").Name
	if out, err := c.kubectl("delete", "pod", victim); err != nil {
		c.Fatal(out, err)
	}
	if out, err := c.kubectl("rollout", "status", "deployment/gpuscale-adapter", "--timeout=2m"); err != nil {
		c.Fatal(out, err)
	}
	if err := c.available("v1beta2.custom.metrics.k8s.io"); err != nil {
		c.Error(err)
	}
}

// leader returns the pod that has the autoscaler's Lease.
func (c *installation) leader() (string, error) {
	holder, err := c.kubectl("get", "lease", "gpuscale-autoscaler", "-o", "jsonpath={.spec.holderIdentity}")
	if err != nil {
		return "", err
	}
	for _, p := range c.pods() {
		if strings.HasPrefix(holder, p.Name) {
			return p.Name, nil
		}
	}
	return "", fmt.Errorf("the lease is held by %q, which is no pod", holder)
}

func (c *installation) leaderDeleted() {
	first, err := c.leader()
	require.NoError(c, err)
	if out, err := c.kubectl("delete", "pod", first); err != nil {
		c.Fatal(out, err)
	}
	c.await("another leader", func() error {
		now, err := c.leader()
		if err == nil && now == first {
			err = errors.New("it leads although it is gone")
		}
		return err
	})
	if out, err := c.kubectl("rollout", "status", "deployment/gpuscale-autoscaler", "--timeout=2m"); err != nil {
		c.Fatal(out, err)
	}
}

// the returns the first pod of a component.
func (c *installation) the(component string) corev1.Pod {
	c.Helper()
	for _, p := range c.pods() {
		if p.Labels["app.kubernetes.io/component"] == component {
			return p
		}
	}
	c.Fatalf("there is no pod of the %s", component)
	panic("unreachable")
}

func (c *installation) driverHangs() {
	pod := c.the("exporter")
	hangs := dcgm
	hangs.Lines = fakenvml.Lines{"hang_ms": fmt.Sprint(time.Hour.Milliseconds())}
	c.must(hangs.Write(filepath.Join(c.state, "dcgm.state")))
	c.await("the exporter to be unready", func() error {
		p, err := c.pod(pod.Name)
		if err == nil && p.Status.ContainerStatuses[0].Ready {
			err = errors.New("it is Ready")
		}
		return err
	})
	c.must(dcgm.Write(filepath.Join(c.state, "dcgm.state")))
	if p := c.podReady(pod.Name); p.Status.ContainerStatuses[0].RestartCount != 0 {
		c.Errorf("it was started again: %+v", p.Status.ContainerStatuses)
	}
}

func (c *installation) must(err error) {
	c.Helper()
	require.NoError(c, err)
}

func (c *installation) portForward() {
	if page := c.forwarded("exporter", "9400", "/metrics"); !strings.Contains(page, dcgm.GPUs[0].UUID) {
		c.Errorf("its page has no GPU: %s", page)
	}
}

// forwarded returns what a component's pod answers through kubectl port-forward.
func (c *installation) forwarded(component, port, path string) string {
	c.Helper()
	cmd := exec.CommandContext(c.Context(), c.env.Binaries.Program("kubectl"), "--kubeconfig", c.env.Cluster.Kubeconfig(), "--namespace", installed,
		"port-forward", "pod/"+c.the(component).Name, ":"+port)
	out, err := cmd.StdoutPipe()
	c.must(err)
	c.must(cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.Fatalf("port-forward has ended: %v", err)
	}
	// The output is: Forwarding from 127.0.0.1:PORT -> 9400
	at := strings.Fields(strings.TrimPrefix(line, "Forwarding from "))[0]
	resp, err := http.Get("http://" + at + path)
	c.must(err)
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	c.must(err)
	if resp.StatusCode != http.StatusOK {
		c.Fatalf("%s%s: %s: %s", component, path, resp.Status, page)
	}
	return string(page)
}

// ownNode enables both exporter options that write to the API server. The permissions and the admission
// policy come from the chart. The kubelet issues the token, which contains the node's name.
func (c *installation) ownNode() {
	c.variant(variant{Flags: []string{"exporter.nodeCondition=true", "exporter.quiesceAnnotation=true"}, Pods: map[string]int{"exporter": 1}})
	node := "node/" + c.node.Name()
	says := func(what, path, want string) {
		c.Helper()
		c.await(what, func() error {
			out, err := c.kubectl("get", node, "-o", "jsonpath="+path)
			if err == nil && !strings.Contains(out, want) {
				err = fmt.Errorf("%q has no %q", out, want)
			}
			return err
		})
	}
	says("the condition", `{.status.conditions[?(@.type=="GPUHealthy")]}`, `"status":"True"`)
	gpu := dcgm.GPUs[0].UUID
	if out, err := c.kubectl("annotate", node, fmt.Sprintf(`gpuscale.io/quiesce={"id":"trial","gpus":[%q],"seconds":300}`, gpu)); err != nil {
		c.Fatal(out, err)
	}
	says("the release", `{.metadata.annotations.gpuscale\.io/quiesced}`, `"state":"released"`)
	if out, err := c.kubectl("annotate", node, "gpuscale.io/quiesce-"); err != nil {
		c.Fatal(out, err)
	}
	c.await("the answer to be gone", func() error {
		out, err := c.kubectl("get", node, "-o", `jsonpath={.metadata.annotations.gpuscale\.io/quiesced}`)
		if err == nil && out != "" {
			err = errors.New(out)
		}
		return err
	})
}

func (c *installation) uninstalled() {
	_, err := c.helm.Run(c.Context(), chart.Release{Namespace: installed}, "uninstall", "gpuscale", "--wait")
	require.NoError(c, err)
	c.await("the pods' end", func() error {
		var left []string
		for _, p := range c.pods() {
			if p.Labels["batch.kubernetes.io/job-name"] == "" {
				left = append(left, p.Name)
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%v", left)
		}
		return nil
	})
	// docs/install.md has the same list.
	want := []string{
		"apiservice.apiregistration.k8s.io/v1alpha1.gpuscale.io", // of one of the CRDs
		"customresourcedefinition.apiextensions.k8s.io/gpunodepools.gpuscale.io",
		"customresourcedefinition.apiextensions.k8s.io/gpuquotas.gpuscale.io",
		"lease.coordination.k8s.io/gpuscale-autoscaler",
	}
	out, err := c.kubectl("get", "-o", "name", "all,configmap,secret,serviceaccount,lease,role,rolebinding,poddisruptionbudget,persistentvolumeclaim,"+
		"endpointslice,networkpolicy,clusterrole,clusterrolebinding,apiservice,customresourcedefinition,validatingadmissionpolicy,validatingadmissionpolicybinding")
	c.must(err)
	var left []string
	for name := range strings.Lines(out) {
		if name = strings.TrimSpace(name); strings.Contains(name, "gpuscale") {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, want) {
		c.Errorf("objects are left: %v, want %v", left, want)
	}
	if entries, err := os.ReadDir(c.node.Path("/run/gpuscale")); !os.IsNotExist(err) {
		c.Errorf("files are left on the node: %v, %v", entries, err)
	}
}
