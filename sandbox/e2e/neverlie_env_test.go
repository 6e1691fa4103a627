package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/promfault"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// faultEnv is a control plane whose HPAs get their metrics from a faulty Prometheus, half of them through
// each adapter.
type faultEnv struct {
	*testenv.Env
	client kubernetes.Interface
	prom   *prom.Client // queries the real Prometheus, not the proxy
	proxy  *promfault.Proxy
	page   *promfault.Page
	router *router
	seen   *record

	remembered time.Time // time of the data in a stale answer

	load     atomic.Int64 // load shared by the pods of each namespace
	requests atomic.Int64 // requests of the workload that scales to zero
	queued   atomic.Bool  // whether its picker has queued one yet
}

func newFaultEnv(t *testing.T) *faultEnv {
	on := newEnv(t)
	var err error
	other := ""
	if compared() {
		other, err = build.PrometheusAdapter(t.Context(), build.Options{Root: on.binaries.Root, Out: os.Stderr})
		require.NoError(t, err)
	}
	b := &faultEnv{}
	b.load.Store(idleLoad)
	b.page = promfault.NewPage(b.samples)
	pages := &healthPages{nth: map[string]int{}}
	page, health := httptest.NewServer(b.page), httptest.NewServer(pages)
	t.Cleanup(page.Close)
	t.Cleanup(health.Close)
	if b.Env, err = testenv.Start(t.Context(), testenv.Options{
		Prometheus: string(faultScrape(page.Listener.Addr().String(), health.Listener.Addr().String())),
		// An adapter that waits for Prometheus must delay only its own HPAs.
		Change: func(o *cluster.Options) {
			o.ExtraArgs[cluster.ControllerManager] = []string{"--concurrent-horizontal-pod-autoscaler-syncs=40"}
		},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	b.client = b.Cluster.Client()
	pages.api.Store(b.Cluster.Client())
	if compared() { // before the adapter reads which kinds exist
		b.startLWS(t)
	}
	b.prom, err = prom.New(prom.Config{URL: b.Cluster.PrometheusURL(), Timeout: 5 * time.Second})
	require.NoError(t, err)
	if b.proxy, err = promfault.New(b.Cluster.PrometheusURL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.proxy.Close() })
	b.populate(t)
	b.remember(t)
	b.startAdapters(t, on.binaries.Program("gpuscale-adapter"), other)
	b.scale(t)
	return b
}

func faultScrape(page, health string) []byte {
	return fmt.Appendf(nil, `global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- {job_name: workers, honor_labels: true, static_configs: [{targets: [%q]}]}
%s`, page, healthScrapes(health))
}

// samples returns the real load of each namespace, shared by its pods.
func (b *faultEnv) samples(ctx context.Context) ([]promfault.Sample, error) {
	if b.client == nil {
		return nil, errors.New("there is no control plane yet")
	}
	pods, err := b.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	live := map[string][]string{} // pods by namespace/app
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
			app := p.Namespace + "/" + p.Labels["app"]
			live[app] = append(live[app], p.Name)
		}
	}
	picker := ""
	if names := live[zeroNamespace+"/"+zeroPicker]; len(names) > 0 {
		picker = names[0]
	}
	out := b.llm(live[zeroNamespace+"/"+zeroServers], picker)
	for app, names := range live {
		namespace, name, _ := strings.Cut(app, "/")
		if name != workload {
			continue
		}
		for _, name := range names {
			out = append(out, promfault.Sample{
				Name:   workSeries,
				Labels: map[string]string{"namespace": namespace, "pod": name},
				Value:  float64(b.load.Load()) / float64(len(names)),
			})
		}
	}
	return out, nil
}

// populate creates nodes, and workloads with the right number of replicas.
func (b *faultEnv) populate(t *testing.T) {
	t.Helper()
	for i := range 3 {
		b.make(t, "node.yaml", "NAME", "node-"+strconv.Itoa(i))
	}
	for a, c := range hpas(adapters()...) {
		b.deploy(t, c.namespace(a), workload, replicas)
	}
	await.For(t, testenv.Patience, "all pods run", func() error {
		for a, c := range hpas(adapters()...) {
			d, err := b.client.AppsV1().Deployments(c.namespace(a)).Get(t.Context(), workload, metav1.GetOptions{})
			if err != nil || d.Status.ReadyReplicas != replicas {
				return fmt.Errorf("%d in %s %w", d.Status.ReadyReplicas, c.namespace(a), err)
			}
		}
		return nil
	})
}

// make creates the objects of a file in testdata, with words replaced.
func (b *faultEnv) make(t *testing.T, file string, words ...string) {
	t.Helper()
	require.NoError(t, b.Create(t.Context(), testenv.Text(t, "testdata/"+file, words...)))
}

func (b *faultEnv) deploy(t *testing.T, namespace, name string, n int) {
	t.Helper()
	b.make(t, "Deployment.yaml", "TENANT", namespace, "NAME", name, "REPLICAS", strconv.Itoa(n))
}

// remember records a time without load, which is used for stale answers later, and then starts the load.
func (b *faultEnv) remember(t *testing.T) {
	t.Helper()
	b.waitForLoad(t)
	b.waitForLoad(t) // one scrape later
	b.remembered = time.Now()
	b.proxy.StaleAt(b.remembered)
	b.load.Store(load)
	b.waitForLoad(t)
}

// waitForLoad waits until Prometheus has a complete scrape that began after this call and has the load in
// each namespace.
func (b *faultEnv) waitForLoad(t *testing.T) {
	t.Helper()
	begin, want := time.Now(), float64(b.load.Load())
	await.For(t, testenv.Patience, fmt.Sprintf("Prometheus has a load of %v", want), func() error {
		v, err := b.prom.Query(t.Context(), "sum by (namespace) ("+workSeries+") and on () min(timestamp("+workSeries+")) > "+
			strconv.FormatFloat(float64(begin.UnixMilli())/1000, 'f', 3, 64), time.Time{})
		if err != nil {
			return err
		}
		right := 0
		for _, s := range v {
			if s.Value > want-0.01 && s.Value < want+0.01 {
				right++
			}
		}
		if all := len(adapters()) * len(cells()); right < all {
			return fmt.Errorf("%d of %d namespaces", right, all)
		}
		return nil
	})
}

// honest ends all faults: first those of samples, then those of answers, so that bad samples are never served
// without the warning that belongs to them.
func (b *faultEnv) honest(t *testing.T) {
	t.Helper()
	b.page.Serve(promfault.True)
	b.waitForLoad(t)
	require.NoError(t, b.proxy.Answer(promfault.Honest))
}

// inject begins a step of a fault, in the reverse order for the same reason.
func (b *faultEnv) inject(t *testing.T, s step) {
	t.Helper()
	if s.answer == promfault.Stale {
		await.True(t, testenv.Patience, "what is remembered is older than maxAge", func() bool { return time.Since(b.remembered) > 2*maxAge })
	}
	require.NoError(t, b.proxy.Answer(s.answer))
	b.page.Serve(s.samples)
}

// right returns an error if an HPA of the adapters is not in the expected state.
func (b *faultEnv) right(of ...adapter) error {
	var errs []error
	for a, c := range hpas(of...) {
		errs = append(errs, b.rightIn(c.namespace(a)))
	}
	return errors.Join(errs...)
}

func (b *faultEnv) rightIn(namespace string) error {
	h, n := b.seen.hpa(namespace), b.seen.replicas(namespace+"/"+workload)
	if !h.active || n != replicas {
		return fmt.Errorf("%s: %d replicas, active %v: %s %s", namespace, n, h.active, h.reason, h.message)
	}
	return nil
}

// reset repairs HPAs that have not recovered by themselves.
func (b *faultEnv) reset(t *testing.T) {
	t.Helper()
	for a, c := range hpas(adapters()...) {
		if ns := c.namespace(a); b.rightIn(ns) != nil {
			s := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: workload}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
			_, err := b.client.AppsV1().Deployments(ns).UpdateScale(t.Context(), workload, s, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
	await.For(t, testenv.Patience, "all are as they should be", func() error { return b.right(adapters()...) })
}

// scale makes the HPA controller start.
func (b *faultEnv) scale(t *testing.T) {
	t.Helper()
	for a, c := range hpas(adapters()...) {
		b.make(t, "hpa.yaml", "TENANT", c.namespace(a), "NAME", workload, "VERSION", "apps/v1", "KIND", "Deployment", "LEAST", "1", "BEHAVIOR", atOnce, "SPEC", c.spec(a))
	}
	b.seen = newRecord(t, b.client)
	await.For(t, testenv.Patience, "all HPAs see the load", func() error { return b.right(adapters()...) })
	b.awaitSyncs(t, 3)
}
