package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/procstat"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// The load: each HPA requests a Pods metric of its namespace's ten pods, and an External metric. It does so
// every 15 s at its own moment, without waiting for answers to others.
const (
	loadNamespaces = 200
	loadPods       = 10 // in each
	hpaPeriod      = 15 * time.Second
	loadFor        = 2 * hpaPeriod
)

// mostJudged is the largest number of HPAs for which results are checked. With more HPAs the test itself,
// both adapters, Prometheus and the API server compete for CPU.
const mostJudged = 1000

var loadRows = []struct{ hpas, namespaces int }{{1, 1}, {100, 20}, {1000, 100}, {5000, 200}}

func loadNamespace(n int) string { return fmt.Sprintf("team-%d", n) }

// serveLoad serves the metrics of model servers in 200 namespaces, five series for each pod.
func serveLoad(w http.ResponseWriter, _ *http.Request) {
	for n := range loadNamespaces {
		for p := range loadPods {
			for i, name := range []string{"num_requests_waiting", "num_requests_running", "kv_cache_usage_perc", "gpu_prefix_cache_queries", "request_success"} {
				_, _ = fmt.Fprintf(w, "vllm:%s{namespace=%q,pod=\"vllm-%d\",model_name=\"m\",engine=\"0\"} %g\n", name, loadNamespace(n), p, float64(i)/10+float64(p)/100)
			}
		}
	}
}

// TestLoad sends the requests of many HPAs to prometheus-adapter v0.12.0 and then to ours, through the real
// API server, with the real Prometheus. There must be no error, never more queries than v0.12.0 sends, and
// from 100 HPAs on at most a tenth of them. Times, CPU and memory are printed.
func TestLoad(t *testing.T) {
	testall.Only(t, "both adapters under up to 5,000 HPAs; make bench-adapter runs it alone")
	b := newCompatEnv(t, serveLoad)
	b.loadPods(t)
	flags := []string{"--prometheus-url=" + b.Cluster.PrometheusURL()}
	theirs := b.start(t, "load-theirs", b.other, append(flags, "--config=testdata/load.yaml",
		"--lister-kubeconfig="+b.Cluster.Kubeconfig(), "--client-qps=1000", "--client-burst=1000", "--metrics-relist-interval=1m")...)
	ours := b.start(t, "load-ours", b.ours, append(flags, "--config="+file(t, b.Cluster, "ours.yaml", []byte("rules: []\n")), "--kubeconfig="+b.Cluster.Kubeconfig())...)
	for _, address := range []string{theirs, ours} {
		b.answers(t, address, podsPath(loadNamespace(0)))
	}
	rows := map[string][]*loadRow{}
	for _, r := range loadRows {
		for _, address := range []string{theirs, ours} {
			b.settled(t)
			rows[address] = append(rows[address], b.underLoad(t, address, r.hpas, r.namespaces))
		}
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "adapter\tHPAs\tnamespaces\terrors\tp50\tp99\tqueries/min\tCPU s/min\tPrometheus' CPU s/min\tRSS MiB\tof its file")
	for name, address := range map[string]string{"v0.12.0": theirs, "ours": ours} {
		for i, r := range rows[address] {
			perMinute := float64(time.Minute) / float64(loadFor)
			_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d of %d\t%s\t%s\t%.0f\t%.1f\t%.1f\t%d\t%d\n", name, loadRows[i].hpas, loadRows[i].namespaces, len(r.errors), len(r.took)+len(r.errors),
				r.quantile(.5), r.quantile(.99), r.queries*perMinute, r.cpu.Seconds()*perMinute, r.prometheus*perMinute, r.rss.Now>>20, r.rss.File>>20)
		}
	}
	_ = w.Flush()
	t.Logf("load average %s\n%s", procstat.Load(), out.String())
	for i, r := range rows[ours] {
		if loadRows[i].hpas > mostJudged {
			break
		}
		other := rows[theirs][i]
		if len(r.errors) > 0 {
			t.Errorf("%d HPAs: %d errors, such as %v", loadRows[i].hpas, len(r.errors), r.errors[0])
		}
		most := other.queries
		if loadRows[i].hpas >= 100 {
			most /= 10
		}
		if r.queries > most {
			t.Errorf("%d HPAs: %.0f queries, %.0f by v0.12.0", loadRows[i].hpas, r.queries, other.queries)
		}
	}
}

// settled waits until Prometheus has answered the queries of the previous row.
func (b *compatEnv) settled(t *testing.T) {
	t.Helper()
	await.For(t, testenv.Patience, "Prometheus settles", func() error {
		if n := b.ofPrometheus(t, "prometheus_engine_queries"); n > 0 {
			return fmt.Errorf("%g queries are under way", n)
		}
		return nil
	})
}

// loadPods creates the pods. They stay pending, since only their existence matters.
func (b *compatEnv) loadPods(t *testing.T) {
	t.Helper()
	workqueue.ParallelizeUntil(t.Context(), 8, loadNamespaces, func(n int) {
		err := b.Namespace(t.Context(), loadNamespace(n), nil)
		for p := range loadPods {
			err = errors.Join(err, b.Create(t.Context(), fmt.Sprintf(
				"{apiVersion: v1, kind: Pod, metadata: {namespace: %s, name: vllm-%d, labels: {app: vllm}}, spec: {containers: [{name: main, image: sandbox.invalid/vllm}]}}", loadNamespace(n), p)))
		}
		if err != nil {
			t.Error(err)
		}
	})
}

func podsPath(namespace string) string {
	return "/apis/custom.metrics.k8s.io/v1beta2/namespaces/" + namespace + "/pods/*/queue_depth?labelSelector=app%3Dvllm"
}

func externalPath(namespace string) string {
	return "/apis/external.metrics.k8s.io/v1beta1/namespaces/" + namespace + "/requests_running"
}

// loadRow is the result for one number of HPAs.
type loadRow struct {
	mu         sync.Mutex
	took       []time.Duration
	errors     []error
	queries    float64
	cpu        time.Duration
	prometheus float64 // seconds
	rss        procstat.Resident
}

func (r *loadRow) quantile(q float64) time.Duration {
	if len(r.took) == 0 {
		return 0
	}
	slices.Sort(r.took)
	return r.took[int(q*float64(len(r.took)-1))].Round(10 * time.Microsecond)
}

// underLoad sends the requests of a number of HPAs, first for a warm-up period that does not count.
func (b *compatEnv) underLoad(t *testing.T, address string, hpas, namespaces int) *loadRow {
	t.Helper()
	row := &loadRow{}
	pid := b.processes[address].PID()
	ctx, stop := context.WithTimeout(t.Context(), hpaPeriod+loadFor)
	defer stop()
	begin := time.Now()
	counted := begin.Add(hpaPeriod)
	var asking sync.WaitGroup
	for n := range hpas {
		next := begin.Add(rand.N(hpaPeriod))
		namespace := loadNamespace(n % namespaces)
		asking.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Until(next)):
				}
				for path, items := range map[string]int{podsPath(namespace): loadPods, externalPath(namespace): 1} {
					start := time.Now()
					r, err := b.ask(ctx, address, question{path: path})
					if ctx.Err() != nil {
						return // the end of the run may have interrupted the request
					}
					if err == nil && (!r.ok() || len(r.items) != items) {
						err = fmt.Errorf("%s: %d, %d items: %.200s", path, r.code, len(r.items), r.text)
					}
					if start.After(counted) {
						row.add(time.Since(start), err)
					}
				}
				for next = next.Add(hpaPeriod); time.Until(next) < 0; {
					next = next.Add(hpaPeriod)
				}
			}
		})
	}
	<-time.After(time.Until(counted))
	cpu, queries, prometheus := procstat.CPU(pid), b.ofPrometheus(t, queriesSeries), b.ofPrometheus(t, "process_cpu_seconds_total")
	asking.Wait()
	row.cpu, row.queries = procstat.CPU(pid)-cpu, b.ofPrometheus(t, queriesSeries)-queries
	row.prometheus, row.rss = b.ofPrometheus(t, "process_cpu_seconds_total")-prometheus, procstat.Memory(pid)
	return row
}

func (r *loadRow) add(took time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.errors = append(r.errors, err)
		return
	}
	r.took = append(r.took, took)
}

const queriesSeries = `prometheus_http_requests_total{code="200",handler="/api/v1/query"}`

// ofPrometheus returns the value of one of Prometheus' own series; 0 before it exists.
func (b *compatEnv) ofPrometheus(t *testing.T, series string) float64 {
	t.Helper()
	_, text := get(t, b.Cluster.PrometheusURL()+"/metrics")
	_, after, _ := strings.Cut(text, "\n"+series+" ")
	value, _, _ := strings.Cut(after, "\n")
	v, _ := strconv.ParseFloat(value, 64)
	return v
}
