package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// TestCompat sends the same requests to prometheus-adapter v0.12.0 and to our adapter, with one Prometheus
// and one configuration file. The answers may differ only as docs/internals/adapter-compat.md says, and each
// difference on that page must occur.
func TestCompat(t *testing.T) {
	testall.Only(t, "prometheus-adapter v0.12.0 beside ours; adapter/compat has its rules without it")
	b := newCompatEnv(t, servePage)
	require.NoError(t, neighbours.Apply(t.Context(), b.Admin, "testdata/compat-objects.yaml"))
	b.sameQuestions(t)
}

type compatEnv struct {
	*testenv.Env
	ours, other string   // paths of the programs
	serving     []string // flags
	client      *http.Client
	processes   map[string]*proc.Process // by address
}

// newCompatEnv prepares both adapters' programs and a Prometheus that scrapes a page every second.
func newCompatEnv(t *testing.T, serve http.HandlerFunc) *compatEnv {
	on := newEnv(t)
	b := &compatEnv{ours: on.binaries.Program("gpuscale-adapter"), processes: map[string]*proc.Process{}}
	var err error
	b.other, err = build.PrometheusAdapter(t.Context(), build.Options{Root: on.binaries.Root, Out: os.Stderr})
	require.NoError(t, err)
	page := httptest.NewServer(serve)
	t.Cleanup(page.Close)
	scrape := fmt.Sprintf(`global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- {job_name: page, honor_labels: true, static_configs: [{targets: [%q], labels: {job: "", instance: ""}}]}
`, page.Listener.Addr().String())
	b.Env, err = testenv.Start(t.Context(), testenv.Options{Prometheus: scrape})
	require.NoError(t, err)
	t.Cleanup(b.Stop)
	var ca []byte
	b.serving, ca = servingFlags(t, b.Cluster)
	config := rest.CopyConfig(b.Cluster.RESTConfig())
	config.TLSClientConfig.CAData, config.TLSClientConfig.CAFile, config.QPS = ca, "", -1
	b.client, err = rest.HTTPClientFor(config)
	require.NoError(t, err)
	b.client.Timeout = 20 * time.Second
	return b
}

// start runs an adapter with flags that both adapters have, and returns its address.
func (b *compatEnv) start(t *testing.T, name, path string, args ...string) string {
	t.Helper()
	address, p := startAt(t, b.Cluster, name, path, b.serving, args...)
	b.processes[address] = p
	return address
}

// pair starts both adapters with one file and the same flags, as if only the image of a Deployment were
// changed.
func (b *compatEnv) pair(t *testing.T, name, file, prometheus string) (theirs, ours string) {
	t.Helper()
	flags := b.flags(file, prometheus)
	theirs = b.start(t, name+"-theirs", b.other, flags...)
	return theirs, b.start(t, name+"-ours", b.ours, flags...)
}

func (b *compatEnv) flags(file, prometheus string) []string {
	return []string{
		"--lister-kubeconfig=" + b.Cluster.Kubeconfig(), "--config=" + file, "--prometheus-url=" + prometheus,
		"--metrics-relist-interval=1s", "--metrics-max-age=1m", "--client-qps=200", "--client-burst=200", "--v=2",
	}
}

func (b *compatEnv) ask(ctx context.Context, address string, q question) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+q.url(), nil)
	if err != nil {
		return reply{}, err
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return reply{}, err
	}
	r := reply{code: resp.StatusCode, text: string(body)}
	var list struct{ Items []item }
	if r.ok() {
		err = json.Unmarshal(body, &list)
	}
	r.items = list.Items
	return r, err
}

// answers waits until an adapter has an answer.
func (b *compatEnv) answers(t *testing.T, address, path string) {
	t.Helper()
	await.For(t, testenv.Patience, address+path, func() error {
		r, err := b.ask(t.Context(), address, question{path: path})
		if err == nil && (!r.ok() || len(r.items) == 0) {
			err = fmt.Errorf("%d %s", r.code, r.text)
		}
		return err
	})
}

const shopJobs = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/*/jobs_waiting"

func (b *compatEnv) sameQuestions(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "compat.yaml"))
	require.NoError(t, err)
	theirs, ours := b.pair(t, "same", file(t, b.Cluster, "pa.yaml", raw), b.Cluster.PrometheusURL())
	for _, address := range []string{theirs, ours} {
		b.answers(t, address, shopJobs)
		b.answers(t, address, "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/web-1/http_requests_per_second")
		b.answers(t, address, "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/lag_total")
	}
	for _, address := range []string{theirs, ours} {
		await.For(t, testenv.Patience, "the rate's window is full", func() error {
			r, err := b.ask(t.Context(), address, question{path: "/apis/custom.metrics.k8s.io/v1beta1/namespaces/shop/pods/web-2/http_requests_per_second"})
			if err == nil && (!r.ok() || r.sum() < 9.8) {
				err = fmt.Errorf("%d %v", r.code, r.sum())
			}
			return err
		})
	}
	b.sameDiscovery(t, theirs, ours)
	count, answered, equal := map[string]int{}, 0, 0
	all := questions()
	for _, q := range all {
		found, theirs, ours, explained := b.compare(t, q, theirs, ours)
		for _, name := range slices.Compact(found) {
			count[name]++
		}
		if theirs.ok() {
			answered++
		}
		if same(q, theirs, ours) {
			equal++
		}
		if !explained {
			t.Errorf("%s is not on the list:\nv0.12.0: %d %.300s\nours:    %d %.300s", q, theirs.code, theirs.text, ours.code, ours.text)
		}
	}
	t.Logf("%d questions, of which v0.12.0 answers %d; %d have the same meaning to an HPA", len(all), answered, equal)
	if len(all) < 200 || answered < 100 || equal < 150 {
		t.Error("that is too few to compare by")
	}
	b.table(t, count)
}

// compare sends a request to both adapters. It retries if ours has no answer of Prometheus yet, which happens
// on a busy machine, or if two rates differ because of the moments at which they were read.
func (b *compatEnv) compare(t *testing.T, q question, theirs, ours string) (found []string, first, second reply, explained bool) {
	t.Helper()
	for range 5 {
		var err error
		if second, err = b.ask(t.Context(), ours, q); err == nil {
			first, err = b.ask(t.Context(), theirs, q)
		}
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		found, explained = classify(q, first, second)
		if (explained || q.metric != "http_requests_per_second") && second.code != http.StatusServiceUnavailable {
			break
		}
	}
	return found, first, second, explained
}

// table prints the differences and compares them with the page.
func (b *compatEnv) table(t *testing.T, count map[string]int) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "adapter-compat.md"))
	require.NoError(t, err)
	listed := boldItems(string(raw))
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	known := map[string]bool{}
	for _, d := range differences {
		if known[d.name] {
			continue
		}
		known[d.name] = true
		fmt.Fprintf(w, "%s\t%d\n", d.name, count[d.name])
		if count[d.name] == 0 {
			t.Errorf("%q is listed and was not seen", d.name)
		}
		if !slices.Contains(listed, d.name) {
			t.Errorf("%q is not in docs/internals/adapter-compat.md", d.name)
		}
	}
	for _, name := range listed {
		if !known[name] && !slices.Contains(seenElsewhere, name) {
			t.Errorf("docs/internals/adapter-compat.md lists %q, which no test looks for", name)
		}
	}
	_ = w.Flush()
	t.Logf("differences from v0.12.0, and in how many answers:\n%s", out.String())
}

// seenElsewhere are differences that only appear with another configuration, or with a Prometheus that
// returns warnings. The tests of adapter/compat and internal/prom cover them.
var seenElsewhere = []string{"A failing selector fails alone", "A broken rule stands alone", "An answer in part is none"}

// boldItems returns the bold words at the start of a page's list items.
func boldItems(page string) []string {
	var all []string
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, "- **"); ok {
			if name, _, ok := strings.Cut(text, ".**"); ok {
				all = append(all, name)
			}
		}
	}
	return all
}

// sameDiscovery checks that our adapter lists everything that v0.12.0 lists.
func (b *compatEnv) sameDiscovery(t *testing.T, theirs, ours string) {
	t.Helper()
	for _, group := range []string{"custom.metrics.k8s.io/v1beta1", "custom.metrics.k8s.io/v1beta2", "external.metrics.k8s.io/v1beta1"} {
		await.For(t, testenv.Patience, "ours lists what v0.12.0 lists of "+group, func() error {
			want, have := b.listed(t, theirs, group), b.listed(t, ours, group)
			if len(want) == 0 {
				return fmt.Errorf("v0.12.0 lists nothing")
			}
			for name := range want {
				if !have[name] {
					return fmt.Errorf("%s is missing", name)
				}
			}
			t.Logf("%s: %d of v0.12.0, %d of ours with the built-in signals", group, len(want), len(have))
			return nil
		})
	}
}

func (b *compatEnv) listed(t *testing.T, address, group string) map[string]bool {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfigAndClient(&rest.Config{Host: "https://" + address}, b.client)
	require.NoError(t, err)
	list, err := client.ServerResourcesForGroupVersion(group)
	require.NoError(t, err)
	names := map[string]bool{}
	for _, r := range list.APIResources {
		names[fmt.Sprintf("%s namespaced=%t", r.Name, r.Namespaced)] = true
	}
	return names
}

// servePage serves testdata/compat.prom.
func servePage(w http.ResponseWriter, _ *http.Request) {
	page, err := os.ReadFile("testdata/compat.prom")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	now := time.Now()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	words := strings.NewReplacer("OLD", strconv.FormatInt(now.Add(-3*time.Minute).UnixMilli(), 10), "GROWN", fmt.Sprintf("%.3f", float64(now.UnixMilli()%1e9)/100))
	_, _ = words.WriteString(w, string(page))
}
