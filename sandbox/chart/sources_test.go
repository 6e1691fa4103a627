package chart

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestNeighbourVictoriaMetrics: everything that reads Prometheus works with VictoriaMetrics. It scrapes the
// same targets with the same file, and its vmalert evaluates our rules.
func TestNeighbourVictoriaMetrics(t *testing.T) {
	_, b := begin(t)
	url := "http://" + testenv.FreeAddress(t)
	b.program(t, build.VictoriaMetrics, "victoria-metrics", proc.Spec{Args: []string{
		"-httpListenAddr=" + strings.TrimPrefix(url, "http://"), "-storageDataPath=" + t.TempDir(), "-retentionPeriod=400d",
		// It does not support rule_files and storage.
		"-promscrape.config=" + filepath.Join(b.Cluster.PrometheusDir(), "prometheus.yml"), "-promscrape.config.strictParse=false",
		"-promscrape.fileSDCheckInterval=1s", "-promscrape.configCheckInterval=1s",
	}})
	b.program(t, build.VictoriaMetrics, "vmalert", proc.Spec{Args: []string{
		"-httpListenAddr=" + testenv.FreeAddress(t), "-datasource.url=" + url, "-remoteWrite.url=" + url, "-notifier.blackhole",
		"-rule=" + filepath.Join(b.Cluster.PrometheusDir(), rulesFolder, "*.yaml"),
	}})
	b.over(t, source{url: url, parameters: "latency_offset: 1ms"}) // docs/adapter.md
	b.allWell(t)
}

// source is a server with Prometheus' API, and how to query it. gpuscale-report adds the parameters for
// VictoriaMetrics itself.
type source struct {
	url        string
	parameters string // for the chart's programs
	tenant     string // empty for none
}

// tenantHeader is the header of Cortex and Mimir.
const tenantHeader = "X-Scope-OrgID"

// client returns the chart's value for this source.
func (s source) client() string {
	if s.tenant == "" {
		return "{parameters: {" + s.parameters + "}}"
	}
	return "{parameters: {" + s.parameters + "}, http: {http_headers: {" + tenantHeader + ": {values: [" + s.tenant + "]}}}}"
}

// report returns gpuscale-report's flags for this source.
func (b *plane) report() []string {
	args := []string{"--prometheus-url", b.prometheus()}
	if b.source.tenant != "" {
		args = append(args, "--header", tenantHeader+"="+b.source.tenant)
	}
	return args
}

// over makes our programs query another source than Prometheus until the test ends.
func (b *env) over(t *testing.T, s source) {
	t.Helper()
	c := prom.Config{URL: s.url}
	if s.tenant != "" {
		c.HTTP.HTTPHeaders = &config.Headers{Headers: map[string]config.Header{tenantHeader: {Values: []string{s.tenant}}}}
	}
	reader, err := prom.New(c)
	require.NoError(t, err)
	await.For(t, testenv.Patience, s.url, func() error {
		v, err := reader.Query(t.Context(), fmt.Sprintf("up{job=%q}", exporterName), time.Time{})
		if err == nil && len(v) == 0 {
			err = errors.New("it has no series")
		}
		return err
	})
	b.source = s
	b.reinstalled(t)
}

// allWell waits until doctor has no finding, every metric of the adapter has an answer without a failed
// query, and gpuscale-report can write a report.
func (b *env) allWell(t *testing.T) {
	t.Helper()
	b.nearlyWell(t)
	lastFailure := map[string]queries{}
	await.For(t, testenv.Patience, "the newest query of each rule is answered", func() error {
		refusals, failing := b.askAll(t), []string(nil)
		for rule, now := range b.queries(t) {
			if now.failed > lastFailure[rule].failed {
				lastFailure[rule] = now
			}
			if now.failed > 0 && now.answered == lastFailure[rule].answered {
				failing = append(failing, rule)
			}
		}
		if len(failing) > 0 {
			return fmt.Errorf("those of %q are not; the adapter answers\n%s", failing, strings.Join(refusals, "\n"))
		}
		return nil
	})
}

// nearlyWell is allWell where queries may have failed before.
func (b *env) nearlyWell(t *testing.T) {
	t.Helper()
	v := b.askUntil(t, func(v visit) bool {
		return v.Faults+v.Warnings == 0 && !slices.ContainsFunc(v.Checks, func(c check) bool { return c.Result == "unknown" })
	})
	for _, c := range v.Checks {
		for _, f := range c.Findings {
			t.Errorf("doctor: %s: %s", c.ID, f)
		}
		if c.Result == "unknown" {
			t.Errorf("doctor: %s is unknown: %s", c.ID, c.Why)
		}
	}
	await.For(t, testenv.Patience, "the HPA", func() error { return b.following(t.Context()) })
	if out, err := exec.CommandContext(t.Context(), b.doctor, append(b.report(), "--since", "10m", "-o", "json", "--accept-incomplete")...).CombinedOutput(); err != nil {
		t.Errorf("the report: %v: %s", err, out)
	}
}

// askAll requests each metric of the adapter, so that every rule is queried. Most have no series here: it
// returns the refusals.
func (b *env) askAll(t *testing.T) (refusals []string) {
	t.Helper()
	for _, at := range []string{"/apis/external.metrics.k8s.io/v1beta1", "/apis/custom.metrics.k8s.io/v1beta2"} {
		list, err := b.Cluster.Client().Discovery().ServerResourcesForGroupVersion(strings.TrimPrefix(at, "/apis/"))
		require.NoError(t, err)
		if len(list.APIResources) == 0 {
			t.Errorf("%s has no metric", at)
		}
		for _, r := range list.APIResources {
			path := at + "/namespaces/team/" + r.Name
			if resource, metric, ok := strings.Cut(r.Name, "/"); ok {
				path = at + "/namespaces/team/" + resource + "/*/" + metric
			}
			if raw, err := b.get(t, path); err != nil {
				refusals = append(refusals, fmt.Sprintf("%s: %v: %s", r.Name, err, raw))
			}
		}
	}
	return refusals
}

// get sends a request to the API server.
func (b *env) get(t *testing.T, path string) ([]byte, error) {
	t.Helper()
	return b.Cluster.Client().CoreV1().RESTClient().Get().AbsPath(path).DoRaw(t.Context())
}

// queries counts the adapter's queries for a rule, from the adapter's own metrics.
type queries struct{ answered, failed float64 }

var queriesLine = regexp.MustCompile(`(?m)^gpuscale_adapter_queries_total\{.*result="(\w+)",rule="(\w+)"\} (\S+)$`)

// queries returns the counts of each rule.
func (b *env) queries(t *testing.T) map[string]queries {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(b.Cluster.PrometheusDir(), scraperToken))
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/metrics", b.adapter), nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+string(token))
	resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v: %s", resp.Status, err, body)
	}
	out := map[string]queries{}
	for _, m := range queriesLine.FindAllStringSubmatch(string(body), -1) {
		count, err := strconv.ParseFloat(m[3], 64)
		require.NoError(t, err)
		n := out[m[2]]
		if m[1] == "ok" {
			n.answered += count
		} else {
			n.failed += count
		}
		out[m[2]] = n
	}
	return out
}
