package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

var metricsAPIs = []schema.GroupVersion{
	{Group: "custom.metrics.k8s.io", Version: "v1beta1"}, {Group: "custom.metrics.k8s.io", Version: "v1beta2"},
	{Group: "external.metrics.k8s.io", Version: "v1beta1"},
}

// startAdapters and put both behind the API server.
func (b *lieBed) startAdapters(t *testing.T, own, other string) {
	t.Helper()
	cert, key, ca, err := b.cluster.ServingCert("localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := b.file(t, "adapters.crt", cert), b.file(t, "adapters.key", key)
	kubeconfig := b.cluster.Kubeconfig()
	addresses := map[adapter]string{}
	for _, p := range []struct {
		adapter      adapter
		path, config string
		args         []string
	}{
		{ours, own, ourConfig(b.proxy.URL()), []string{"--kubeconfig=" + kubeconfig}},
		// Its default of 5 questions a second to the API server would be another story.
		{theirs, other, theirConfig(), []string{"--lister-kubeconfig=" + kubeconfig, "--prometheus-url=" + b.proxy.URL(), "--client-qps=200", "--client-burst=200"}},
	} {
		address := freeAddress(t)
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Fatal(err)
		}
		name := "adapter-" + string(p.adapter)
		args := append([]string{
			"--config=" + b.file(t, name+".yaml", []byte(p.config)), "--bind-address=127.0.0.1", "--secure-port=" + port,
			"--tls-cert-file=" + certFile, "--tls-private-key-file=" + keyFile,
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		}, p.args...)
		if _, err := b.cluster.Processes().Start(proc.Spec{Name: name, Path: p.path, Args: args, Log: b.cluster.LogFile(name)}); err != nil {
			t.Fatal(err)
		}
		addresses[p.adapter] = address
	}
	b.router = newRouter(t, b.cluster, ca, addresses)
	if err := b.cluster.RouteAPI(t.Context(), "never-lie", "router", b.router.port, metricsAPIs...); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := b.cluster.WaitAPI(ctx, metricsAPIs...); err != nil {
		t.Fatal(err)
	}
	rest := b.client.CoreV1().RESTClient()
	for _, a := range adapters {
		for _, c := range cells() {
			await.For(t, 90*time.Second, fmt.Sprintf("%s answers about %s", a, c), func() error {
				_, err := rest.Get().AbsPath(c.path(a)).DoRaw(t.Context())
				return err
			})
		}
	}
}

// path of a cell's question.
func (c cell) path(a adapter) string {
	ns := c.namespace(a)
	switch {
	case c.kind == "External":
		return externalV1 + ns + "/" + c.metric()
	case c.kind == "Pods":
		return customV2 + ns + "/pods/*/" + c.metric()
	case a == theirs:
		return customV2 + ns + "/metrics/" + c.metric()
	}
	return customV2 + ns + "/deployments.apps/" + workload + "/" + c.metric()
}

func (b *lieBed) file(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(b.cluster.Dir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// freeAddress is a program's own until the test ends.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, release, err := proc.ReservePort()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return "127.0.0.1:" + strconv.Itoa(port)
}

// ourConfig looks twice per scrape and believes a sample for five of them.
func ourConfig(prometheus string) string {
	return fmt.Sprintf(`prometheus: {url: %q, timeout: 1s}
interval: 500ms
maxAge: 5s
rules:
- {name: %s, subject: target, sources: [{metric: %s}], perPod: sum, perWorkload: sum}
- {name: %s, subject: target, sources: [{metric: %s}], perPod: sum, perWorkload: average}
- %s
`, prometheus, workSum, workSeries, workEach, workSeries, zeroRule)
}

// theirConfig is the same in prometheus-adapter's words, with the query of its
// own documentation.
func theirConfig() string {
	var b strings.Builder
	for _, section := range []string{"rules", "externalRules"} {
		fmt.Fprintf(&b, "%s:\n", section)
		for name, over := range map[string]string{workSum: "sum", workEach: "avg"} {
			fmt.Fprintf(&b, `- seriesQuery: '%s{namespace!="",pod!=""}'
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {matches: ".*", as: %q}
  metricsQuery: '%s(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'
`, workSeries, name, over)
		}
	}
	return b.String()
}

// tails are the last words of everything, for a failure.
func (b *lieBed) tails(t *testing.T) {
	for _, name := range []string{"adapter-" + string(ours), "adapter-" + string(theirs), cluster.ControllerManager} {
		t.Logf("%s:\n  %s", name, strings.Join(proc.Tail(b.cluster.LogFile(name), 15), "\n  "))
	}
}
