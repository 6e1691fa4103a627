package e2e

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/promfault"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// A shape is something that happens in a healthy system. Meanwhile an HPA on the queue of a whole workload,
// which requires the most complete answer, must never lose its metric. Time is scaled: two seconds stand for
// 15, in scrapes and in the adapter's maximum age.
type shape struct {
	name, about string
	every       int    // seconds between scrapes
	kind        string // kind of the workload; "apps/v1/Deployment" if empty
	series      int    // number of series of each replica; 1 if 0
	// page returns a pod's series at its nth scrape; ok is false if that scrape fails.
	page func(nth int) (sets []map[string]string, ok bool)
	// during is called in the middle of the shape.
	during func(*faultEnv, *testing.T, shape)
	// always marks shapes that make test plays, one of each class: a failing scrape, series that come and go, an
	// unreachable Prometheus.
	always bool
}

const (
	healthSeries = "health_of_work"
	scale        = 7.5
	// prometheusAway is a shape that is played after all others.
	prometheusAway = "prometheus-away"
	healthySyncs   = 90
	shortSyncs     = 10              // in make test: more than three scrapes, one of which fails
	loading        = 8 * time.Second // time in which a new replica has no page
	ready          = 12              // seconds until the rollout continues, since KWOK's pods are ready at once
)

var scrapeSeconds = []int{2, 4, 8, 16}

func steady(int) ([]map[string]string, bool) { return []map[string]string{nil}, true }

// missing lets one of three scrapes fail.
func missing(nth int) ([]map[string]string, bool) {
	return []map[string]string{nil}, nth%3 != 2
}

// pair has two replicas of Prometheus; the second one is down half of the time.
func pair(nth int) ([]map[string]string, bool) {
	sets := []map[string]string{{"prometheus_replica": "a"}, {"prometheus_replica": "b"}}
	return sets[:2-nth/3%2], true
}

// models has two models of a server; one is replaced by its next version.
func models(nth int) ([]map[string]string, bool) {
	return []map[string]string{{"model": "a"}, {"model": "b", "version": strconv.Itoa(nth / 4)}}, true
}

func shapes() []shape {
	var all []shape
	for _, every := range scrapeSeconds {
		all = append(all, shape{
			name: fmt.Sprintf("scraped-every-%ds", int(float64(every)*scale)), about: fmt.Sprintf("scrapes each %d s, of which one of three fails", int(float64(every)*scale)),
			every: every, page: missing, always: every == scrapeSeconds[0],
		})
	}
	return append(all,
		shape{name: "rollout-deployment", about: "a Deployment's pods are replaced, and load their model first", every: 2, page: steady, during: (*faultEnv).rollOut},
		shape{name: "rollout-statefulset", about: "a StatefulSet's pods are replaced under their own names", every: 2, kind: "apps/v1/StatefulSet", page: steady, during: (*faultEnv).rollOut},
		shape{
			name: "rollout-leaderworkerset", about: "a LeaderWorkerSet's leaders and workers are replaced, group by group", every: 2,
			kind: lwsKind, series: 2, page: steady, during: (*faultEnv).rollOut,
		},
		shape{name: "a-replica-more", about: "replicas are added", every: 2, page: steady, during: (*faultEnv).grow},
		shape{name: "two-prometheuses", about: "two replicas of Prometheus, of which one comes and goes", every: 2, page: pair},
		shape{name: "models-come-and-go", about: "a server's models are replaced while it serves", every: 2, series: 2, page: models, always: true},
		shape{name: prometheusAway, about: "Prometheus is away for three syncs", every: 2, page: steady, always: true},
	)
}

// playedShapes returns the shapes of this run.
func playedShapes() []shape {
	return slices.DeleteFunc(shapes(), func(s shape) bool { return !s.always && !compared() })
}

// row is the row in the page's table. The test fails if anything was refused.
func (s shape) row() string { return fmt.Sprintf("| %s | never |", s.about) }

// workload is the object that the shape's HPA scales, and the described object of its metric.
func (s shape) workload() *unstructured.Unstructured {
	return testenv.Object(cmp.Or(s.kind, "apps/v1/Deployment"), s.name, workload)
}

// each is the load of a replica and the HPA's target.
func (s shape) each() int64 { return int64(max(1, s.series)) * perReplica }

func (s shape) rule() string { return "health_" + strconv.Itoa(s.every) }

// healthAge is the maximum age for a scrape interval, scaled: two and a half intervals plus the adapter's own
// time, at least 45 s and at most 5 minutes.
func healthAge(every int) time.Duration {
	return max(6*time.Second, min(time.Duration(every)*2500*time.Millisecond+2200*time.Millisecond, 40*time.Second))
}

func healthRules() string {
	var b strings.Builder
	for _, every := range scrapeSeconds {
		fmt.Fprintf(&b, "- {name: health_%d, subject: target, sources: [{metric: %s}], perPod: sum, perWorkload: sum, maxAge: %s}\n", every, healthSeries, healthAge(every))
	}
	return b.String()
}

// healthPages serves the pods' pages, one path for each shape.
type healthPages struct {
	api atomic.Pointer[kubernetes.Clientset] // nil before there is a control plane

	mu  sync.Mutex
	nth map[string]int
}

func (h *healthPages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	api := h.api.Load()
	for _, s := range shapes() {
		if s.name != name || api == nil {
			continue
		}
		h.mu.Lock()
		h.nth[name]++
		nth := h.nth[name]
		h.mu.Unlock()
		pods, err := api.CoreV1().Pods(name).List(r.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		sets, ok := s.page(nth)
		if !ok {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		for _, p := range pods.Items {
			if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning || time.Since(p.CreationTimestamp.Time) < loading {
				continue
			}
			for _, set := range sets {
				fmt.Fprintf(w, "%s{namespace=%q,pod=%q", healthSeries, p.Namespace, p.Name)
				for label, value := range set {
					fmt.Fprintf(w, ",%s=%q", label, value)
				}
				fmt.Fprintf(w, "} %d\n", perReplica)
			}
		}
	}
}

// healthScrapes returns the scrape jobs of all shapes.
func healthScrapes(pages string) string {
	var b strings.Builder
	for _, s := range shapes() {
		fmt.Fprintf(&b, "- {job_name: %q, scrape_interval: %ds, honor_labels: true, metrics_path: /%[1]s, static_configs: [{targets: [%[3]q]}]}\n", s.name, s.every, pages)
	}
	return b.String()
}

// neverRefuse plays the shapes at the same time, and then makes Prometheus unreachable. If an HPA loses its
// metric, even for one sync, it counts as refused. Before and after, the metric must include all pods. The
// shapes must already be deployed.
func (b *faultEnv) neverRefuse(t *testing.T) {
	length := shortSyncs
	if compared() {
		length = healthySyncs
	}
	b.unrefused(t, playedShapes(), func(played []shape) (away time.Duration) {
		syncs := b.syncsOf(t, played)
		syncs(length / 3)
		for _, s := range played {
			if s.during != nil {
				s.during(b, t, s)
			}
		}
		syncs(length)
		return 0
	})
	alone := slices.DeleteFunc(playedShapes(), func(s shape) bool { return s.name != prometheusAway })
	b.unrefused(t, alone, func(played []shape) time.Duration {
		syncs, begin := b.syncsOf(t, played), time.Now()
		require.NoError(t, b.proxy.Answer(promfault.Down))
		syncs(3)
		require.NoError(t, b.proxy.Answer(promfault.Honest))
		away := time.Since(begin)
		syncs(8)
		return away
	})
}

// unrefused fails if an HPA of the shapes loses its metric during play. play returns how long it made
// Prometheus unreachable. If the machine stalled, shapes are played again, at most twice; see excuse.
func (b *faultEnv) unrefused(t *testing.T, left []shape, play func([]shape) (away time.Duration)) {
	t.Helper()
	right := func(s shape) {
		t.Helper()
		await.For(t, testenv.Patience, s.name+": the HPA's number is right", func() error {
			if h := b.seen.hpa(s.name); !h.active || h.average != s.each() {
				return fmt.Errorf("%d for each replica, not %d: %s %s", h.average, s.each(), h.reason, h.message)
			}
			return nil
		})
	}
	for again := 2; len(left) > 0; again-- {
		for _, s := range left {
			right(s)
		}
		b.seen.reset()
		away := play(left)
		left = slices.DeleteFunc(left, func(s shape) bool {
			right(s)
			lost, why := b.seen.lost(s.name), ""
			if lost.how != "" {
				from, age := lost.at.Add(-2*healthAge(s.every)), healthAge(s.every)
				samples := b.scrapes(t, fmt.Sprintf("%s{namespace=%q}", healthSeries, s.name), from, lost.at)
				why = excuse(samples, b.scrapes(t, `up{job="workers"}`, from, lost.at), away, age)
			}
			switch {
			case lost.how == "":
			case why != "" && again > 0:
				t.Logf("%s: played again: %s: %s", s.about, why, lost.how)
				return false
			default:
				t.Errorf("%s: refused: %s %s", s.about, lost.how, why)
			}
			return true
		})
	}
}

// excuse explains why an HPA lost its metric although the adapter is not at fault: the machine stalled, so
// samples were older than maxAge. It adds up the longest time without a sample, the longest delay between two
// scrapes that should be a second apart, and the time in which Prometheus was unreachable on purpose. If the
// sum is more than maxAge, that is the excuse; otherwise it returns "", and the loss was a refusal.
func excuse(samples, seconds []time.Time, away, maxAge time.Duration) string {
	longest := func(of []time.Time) (d time.Duration) {
		for i := 1; i < len(of); i++ {
			d = max(d, of[i].Sub(of[i-1]))
		}
		return d
	}
	gap, late := longest(samples), longest(seconds)
	if gap+late+away <= maxAge {
		return ""
	}
	return fmt.Sprintf("the machine stalled: %s without a sample, %s without a scrape of each second, Prometheus away for %s; maxAge is %s", gap, late, away, maxAge)
}

// scrapes returns the times between from and to at which Prometheus got samples of the series. It includes
// from and to, so no gap looks longer than it was.
func (b *faultEnv) scrapes(t *testing.T, series string, from, to time.Time) []time.Time {
	t.Helper()
	all := []time.Time{from}
	await.For(t, testenv.Patience, "the scrapes of "+series, func() error {
		lines, err := b.prom.Range(t.Context(), "max(timestamp("+series+"))", from, to, 100*time.Millisecond)
		for _, l := range lines {
			for _, p := range l.Points {
				if at := time.UnixMilli(int64(1000 * p.Value)); at.After(all[len(all)-1]) {
					all = append(all, at)
				}
			}
		}
		return err
	})
	return append(all, to)
}

// syncsOf returns a function that waits until each shape's HPA has had a number of syncs since now.
func (b *faultEnv) syncsOf(t *testing.T, played []shape) func(int) {
	before := b.router.counts()
	return func(n int) {
		t.Helper()
		await.For(t, testenv.Patience, fmt.Sprintf("%d syncs", n), func() error {
			now := b.router.counts()
			for _, s := range played {
				if got := now[s.name] - before[s.name]; got < n {
					return fmt.Errorf("%d of %s", got, s.name)
				}
			}
			return nil
		})
	}
}

// healthy deploys a shape's workload and its HPA.
func (b *faultEnv) healthy(t *testing.T, s shape) {
	t.Helper()
	u := s.workload()
	words := []string{
		"TENANT", s.name, "NAME", workload, "REPLICAS", strconv.Itoa(replicas), "READY", strconv.Itoa(ready), "SIZE", strconv.Itoa(s.series),
		"VERSION", u.GetAPIVersion(), "KIND", u.GetKind(), "LEAST", strconv.Itoa(replicas), "BEHAVIOR", atOnce, "SPEC", fmt.Sprintf(
			`{type: Object, object: {describedObject: {apiVersion: %s, kind: %s, name: %s}, metric: {name: %s}, target: {type: AverageValue, averageValue: "%d"}}}`,
			u.GetAPIVersion(), u.GetKind(), workload, s.rule(), s.each()),
	}
	b.make(t, u.GetKind()+".yaml", words...)
	if s.during != nil && s.kind == "" {
		b.patch(t, s, fmt.Sprintf(`{"spec":{"minReadySeconds":%d}}`, ready))
	}
	b.make(t, "hpa.yaml", words...)
}

const lwsKind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"

// startLWS runs LeaderWorkerSet's own controller and webhooks.
func (b *faultEnv) startLWS(t *testing.T) {
	t.Helper()
	b.Run(t, testenv.Project{
		Neighbour: build.LeaderWorkerSet, Program: "cmd", Folder: "config/default", Namespace: "lws-system", Service: "lws-webhook-service",
	}, func(hook, certs string) proc.Spec {
		return proc.Spec{Args: []string{"--config=" + file(t, b.Cluster, "lws.yaml", fmt.Appendf(nil, `apiVersion: config.lws.x-k8s.io/v1alpha1
kind: Configuration
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
webhook: {port: %s, certDir: %s}
metrics: {bindAddress: "0"}
health: {healthProbeBindAddress: %q}
`, hook, certs, testenv.FreeAddress(t)))}}
	})
}

func (b *faultEnv) patch(t *testing.T, s shape, merge string) {
	t.Helper()
	require.NoError(t, b.Admin.Patch(t.Context(), s.workload(), client.RawPatch(types.MergePatchType, []byte(merge))))
}

// rollOut changes the pod template, which starts a rollout.
func (b *faultEnv) rollOut(t *testing.T, s shape) {
	t.Helper()
	change := fmt.Sprintf(`{"metadata":{"annotations":{"rolled":%q}}}`, time.Now())
	if s.kind == lwsKind {
		b.patch(t, s, `{"spec":{"leaderWorkerTemplate":{"workerTemplate":`+change+`}}}`)
		return
	}
	b.patch(t, s, `{"spec":{"template":`+change+`}}`)
}

// grow raises the minimum number of replicas above the current number.
func (b *faultEnv) grow(t *testing.T, s shape) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"minReplicas":%d}}`, b.seen.replicas(s.name+"/"+workload)+2)
	_, err := b.client.AutoscalingV2().HorizontalPodAutoscalers(s.name).Patch(t.Context(), workload, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}
