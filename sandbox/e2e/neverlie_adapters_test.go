package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

var metricsAPIs = []schema.GroupVersion{
	{Group: "custom.metrics.k8s.io", Version: "v1beta1"}, {Group: "custom.metrics.k8s.io", Version: "v1beta2"},
	{Group: "external.metrics.k8s.io", Version: "v1beta1"},
}

// startAdapters starts both adapters and puts them behind the API server.
func (b *faultEnv) startAdapters(t *testing.T, own, other string) {
	t.Helper()
	serving, ca := servingFlags(t, b.Cluster)
	kubeconfig := b.Cluster.Kubeconfig()
	addresses := map[adapter]string{}
	for _, p := range []struct {
		adapter      adapter
		path, config string
		args         []string
	}{
		{ours, own, ourConfig(b.proxy.URL()), []string{"--kubeconfig=" + kubeconfig}},
		// Its default of 5 requests a second to the API server would dominate the results.
		{theirs, other, theirConfig(), []string{"--lister-kubeconfig=" + kubeconfig, "--prometheus-url=" + b.proxy.URL(), "--client-qps=200", "--client-burst=200"}},
	} {
		if p.path == "" {
			continue
		}
		name := "adapter-" + string(p.adapter)
		config := "--config=" + file(t, b.Cluster, name+".yaml", []byte(p.config))
		addresses[p.adapter], _ = startAt(t, b.Cluster, name, p.path, serving, append(p.args, config)...)
	}
	b.router = newRouter(t, b.Cluster, ca, addresses)
	b.make(t, "router.yaml", "PORT", strconv.Itoa(b.router.port), "AUTHORITY", base64.StdEncoding.EncodeToString(ca))
	// No namespace can be deleted while an API group does not answer.
	testenv.Cleanup(t, func(ctx context.Context) error {
		var errs []error
		for _, api := range metricsAPIs {
			errs = append(errs, b.Delete(ctx, testenv.Object("apiregistration.k8s.io/v1/APIService", "", api.Version+"."+api.Group)))
		}
		return errors.Join(errs...)
	})
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	require.NoError(t, b.Cluster.WaitAPI(ctx, metricsAPIs...))
	rest := b.client.CoreV1().RESTClient()
	for a, c := range hpas(adapters()...) {
		await.For(t, testenv.Patience, fmt.Sprintf("%s answers about %s", a, c), func() error {
			_, err := rest.Get().AbsPath(c.path(a)).DoRaw(t.Context())
			return err
		})
	}
}

// Paths of the metrics APIs at the API server.
const (
	customV2   = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/"
	externalV1 = "/apis/external.metrics.k8s.io/v1beta1/namespaces/"
)

// path is the path of a cell's request.
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

func file(t *testing.T, c *cluster.Cluster, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(c.Dir(), name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// servingFlags returns the flags for an adapter's certificate and for the API server that authenticates its
// callers. ca has signed the certificate.
func servingFlags(t *testing.T, c *cluster.Cluster) (flags []string, ca []byte) {
	t.Helper()
	cert, key, ca, err := c.ServingCert("localhost", "127.0.0.1")
	require.NoError(t, err)
	return []string{
		"--bind-address=127.0.0.1", "--tls-cert-file=" + file(t, c, "serving.crt", cert), "--tls-private-key-file=" + file(t, c, "serving.key", key),
		"--authentication-kubeconfig=" + c.Kubeconfig(), "--authorization-kubeconfig=" + c.Kubeconfig(),
	}, ca
}

// startAt runs an adapter at an address of its own.
func startAt(t *testing.T, c *cluster.Cluster, name, path string, serving []string, args ...string) (address string, p *proc.Process) {
	t.Helper()
	address = testenv.FreeAddress(t)
	_, port, _ := strings.Cut(address, ":")
	p, err := c.Processes().Start(proc.Spec{Name: name, Path: path, Log: c.LogFile(name), Args: slices.Concat(serving, []string{"--secure-port=" + port}, args)})
	require.NoError(t, err)
	return address, p
}

// maxAge is the maximum age of a sample that our adapter uses: five scrapes.
const maxAge = 5 * time.Second

// ourConfig queries twice per scrape.
func ourConfig(prometheus string) string {
	return fmt.Sprintf(`prometheus: {url: %q, timeout: 1s}
interval: 500ms
maxAge: %s
rules:
- {name: %s, subject: target, sources: [{metric: %s}], perPod: sum, perWorkload: sum}
- {name: %s, subject: target, sources: [{metric: %s}], perPod: sum, perWorkload: average}
- %s
%s`, prometheus, maxAge, workSum, workSeries, workEach, workSeries, zeroRule, healthRules())
}

// theirConfig is the same configuration for prometheus-adapter, with the query from its own documentation.
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

// tails logs the last log lines of all programs after a failure.
func (b *faultEnv) tails(t *testing.T) {
	names := []string{cluster.ControllerManager}
	for _, a := range adapters() {
		names = append(names, "adapter-"+string(a))
	}
	for _, name := range names {
		t.Logf("%s:\n  %s", name, strings.Join(proc.Tail(b.Cluster.LogFile(name), 15), "\n  "))
	}
}
