package node

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

// script is a scripted source.
type script struct {
	hang  atomic.Pointer[chan struct{}] // Read waits for it
	fail  atomic.Pointer[error]
	reads atomic.Int32
}

func (s *script) Watch([]uint16, time.Duration, map[uint16]time.Duration) {}
func (s *script) Close() error                                            { return nil }
func (s *script) Read() (*collect.Reading, error) {
	s.reads.Add(1)
	if hang := s.hang.Load(); hang != nil {
		<-*hang
	}
	if err := s.fail.Load(); err != nil {
		return nil, *err
	}
	now := time.Now()
	return &collect.Reading{Taken: now, Dropped: map[string]int{"blank": 1}, Entities: []collect.Entity{{
		Kind: collect.GPU, UUID: "GPU-a", Model: "L40S",
		Values: []collect.Value{{Field: 203, Number: 25, Time: now}},
	}}}, nil
}

// every are the options of a node that is read at an interval.
func every(interval time.Duration) collect.Options { return collect.Options{Interval: interval} }

// begin runs a node until the test ends. Without an interval there is one reading, at once, which does not become
// stale.
func begin(t *testing.T, o Options) *Node {
	t.Helper()
	o.Node = "node-1"
	if o.Interval == 0 {
		o.Interval = 10 * time.Minute
	}
	n := New(o)
	var running sync.WaitGroup
	running.Go(func() { n.Run(t.Context()) }) // which ends before the cleanup
	t.Cleanup(running.Wait)
	return n
}

func scrape(n *Node, accept string) *http.Response {
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	n.Handler().ServeHTTP(rec, req)
	return rec.Result()
}

func body(t *testing.T, n *Node, accept ...string) string {
	t.Helper()
	b, err := io.ReadAll(scrape(n, strings.Join(accept, "")).Body)
	require.NoError(t, err)
	return string(b)
}

func ready(n *Node) func() bool { return func() bool { return n.Ready() == nil } }

func TestHangingSourceBlocksNoScrape(t *testing.T) {
	s := &script{}
	inBubble(t, s, time.Second, func(t *testing.T, n *Node) {
		if got := body(t, n); !strings.Contains(got, "gpu_busy_ratio{") {
			t.Fatalf("no value:\n%s", got)
		}
		release := make(chan struct{})
		s.hang.Store(&release)
		pass(4 * time.Second)
		got := body(t, n) // it would hang if it waited for the source
		if strings.Contains(got, "gpu_busy_ratio{") {
			t.Error("an old value is served as if it were one")
		}
		if !strings.Contains(got, "gpu_sample_age_seconds{") {
			t.Errorf("nothing says that values are old:\n%s", got)
		}
		pass(selfInterval)
		if got := body(t, n); !strings.Contains(got, `dropped_total{reason="stale"}`) || strings.Contains(got, `dropped_total{reason="stale"} 0`) {
			t.Errorf("old values are not counted:\n%s", got)
		}
		if err := n.Ready(); err == nil || !strings.Contains(err.Error(), "the source has not answered since") {
			t.Errorf("ready: %v", err)
		}
		s.hang.Store(nil)
		close(release)
		synctest.Wait()
		if err := n.Ready(); err != nil {
			t.Errorf("the source is back: %v", err)
		}
	})
}

// A pass that does not end is logged once.
func TestHangIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := os.Create(filepath.Join(t.TempDir(), "log"))
		require.NoError(t, err)
		s, release := &script{}, make(chan struct{})
		s.hang.Store(&release)
		begin(t, Options{Options: every(time.Second), Source: s, Log: slog.New(slog.NewTextHandler(log, nil))})
		synctest.Wait()
		for _, want := range []int{0, 1, 1} {
			text, _ := os.ReadFile(log.Name())
			if got := strings.Count(string(text), "the source does not answer"); got != want {
				t.Errorf("logged %d times, want %d", got, want)
			}
			pass(slowPass)
		}
		s.hang.Store(nil)
		close(release)
	})
}

// engine returns values that are taken on another clock, as a host engine does.
type engine struct {
	script
	phase time.Duration
}

func (s *engine) Read() (*collect.Reading, error) {
	r, err := s.script.Read()
	r.Entities[0].Values[0].Time = r.Taken.Add(-s.phase).Truncate(time.Second).Add(s.phase)
	return r, err
}

// Passes follow the samples of a source that samples by itself, and are not more frequent because of that.
func TestPassesFollowSamples(t *testing.T) {
	for _, phase := range []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond, 700 * time.Millisecond, 999 * time.Millisecond} {
		s := &engine{phase: phase}
		inBubble(t, s, time.Second, func(t *testing.T, n *Node) {
			pass(10 * time.Second)
			r := n.latest.Load().reading
			if age, reads := r.Taken.Sub(r.Newest()), s.reads.Load(); age > 250*time.Millisecond || reads > 12 {
				t.Errorf("samples at %s: the newest was %s old after %d passes", phase, age, reads)
			}
		})
	}
}

// A failing source is tried again soon, and then ever more rarely, whatever the interval.
func TestSourceThatComesLater(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 30 * time.Second} {
		refused, lost := errors.New("connection refused"), errors.New("GPU is lost")
		s := &script{}
		s.fail.Store(&refused)
		inBubble(t, s, interval, func(t *testing.T, n *Node) {
			if got := body(t, n); !errors.Is(n.Ready(), refused) || !strings.Contains(got, "gpuscale_exporter_source_up") {
				t.Errorf("%v, self-metrics before the first reading:\n%s", n.Ready(), got)
			}
			s.fail.Store(nil)
			pass(firstDelay)
			if err := n.Ready(); err != nil {
				t.Errorf("the source is there: %v", err)
			}
			s.fail.Store(&lost)
			pass(3 * interval)
			if got := body(t, n); !errors.Is(n.Ready(), lost) || !strings.Contains(got, "gpuscale_exporter_source_up 0") {
				t.Errorf("the source fails: %v\n%s", n.Ready(), got)
			}
			before := s.reads.Load()
			pass(time.Minute)
			if n := s.reads.Load() - before; n < 12 || n > 17 {
				t.Errorf("it is tried %d times in a minute", n)
			}
			s.fail.Store(nil)
			pass(longestDelay)
			if err := n.Ready(); err != nil {
				t.Errorf("the source is back: %v", err)
			}
		})
	}
}

func TestScrapesAtOnce(t *testing.T) {
	n := begin(t, Options{Source: &script{}})
	await.True(t, time.Minute, "ready", ready(n))
	handler := n.Handler()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				rec := httptest.NewRecorder()
				handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
				if got := rec.Body.String(); !strings.HasPrefix(got, "# HELP gpu_info") || strings.Count(got, "gpu_info{") != 1 {
					t.Error("a scrape got another's bytes")
				}
			}
		})
	}
	all.Wait()
}

// oneGPU is a kubelet whose one pod holds the script's GPU.
type oneGPU struct {
	podresources.UnimplementedPodResourcesListerServer
	pod atomic.Pointer[string]
}

func (k *oneGPU) say(pod string) { k.pod.Store(&pod) }

func (k *oneGPU) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{
		Namespace: "ns", Name: *k.pod.Load(), Containers: []*podresources.ContainerResources{{
			Name: "main", Devices: []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"GPU-a"}}},
		}},
	}}}, nil
}

func kubelet(t *testing.T, pod string) (w *pods.Watcher, k *oneGPU, stop func()) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k = &oneGPU{}
	k.say(pod)
	l, err := net.Listen("unix", socket)
	require.NoError(t, err)
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	w, err = pods.New(pods.Options{Socket: socket, Interval: 100 * time.Millisecond})
	require.NoError(t, err)
	return w, k, server.Stop
}

// While the kubelet is away its last answer is used.
func TestAllocations(t *testing.T) {
	watcher, k, stop := kubelet(t, "first")
	n := begin(t, Options{Options: every(time.Second), Source: &script{}, Pods: watcher})
	has := func(what string) func() bool { return func() bool { return strings.Contains(body(t, n), what) } }
	await.True(t, time.Minute, "the pod", has(`model="L40S",namespace="ns",pod="first",container="main"} 0.25`))
	k.say("second")
	await.True(t, time.Minute, "the new pod", has(`pod="second"`))
	stop()
	await.True(t, time.Minute, "the failure is counted", func() bool { return n.attributionErrors() > 0 })
	await.True(t, time.Minute, "the pod stays", has(`gpu_held{node="node-1",gpu="0",gpu_uuid="GPU-a",namespace="ns",pod="second"`))
}

// The exporter emits the series about itself that the catalogue lists.
func TestSelfMetricsAreTheCatalogues(t *testing.T) {
	m := newMetrics(func() float64 { return 0 }, func() float64 { return 0 })
	count(m.drops, map[string]int{"blank": 1})
	count(m.leftOut, map[string]int{"gpu_held": 1})
	m.nodeWrites.WithLabelValues("event", "ok")
	families, err := m.registry.Gather()
	require.NoError(t, err)
	served := map[string]bool{}
	for _, f := range families {
		served[f.GetName()] = true
	}
	for _, d := range metric.Of(metric.Exporter) {
		if strings.HasPrefix(d.Name, "gpuscale_exporter_") && !served[d.Name] {
			t.Errorf("%s is in the catalogue and not served", d.Name)
		}
		delete(served, d.Name)
	}
	if len(served) > 0 {
		t.Errorf("served and not in the catalogue: %v", served)
	}
}

func TestCompression(t *testing.T) {
	for _, c := range []struct {
		on     bool
		accept string
		want   string
	}{
		{false, "gzip", ""}, {true, "", ""}, {true, "gzip", "gzip"}, {true, "br, gzip;q=0.5", "gzip"}, {true, "gzip;q=0", ""},
		{true, "zstd, gzip", "gzip"}, {true, "*;q=1, gzip;q=0.0", ""}, {true, "deflate", ""},
	} {
		n := New(Options{Options: every(time.Second), Source: &script{}, Compress: c.on})
		rec, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
		req.Header.Set("Accept-Encoding", c.accept)
		handler := n.Handler()
		handler.ServeHTTP(rec, req)
		var body io.Reader = rec.Body
		size := rec.Body.Len()
		if got := rec.Header().Get("Content-Encoding"); got != c.want {
			t.Errorf("compression %v, Accept-Encoding %q: %q, want %q", c.on, c.accept, got, c.want)
		} else if got == "gzip" {
			z, err := gzip.NewReader(rec.Body)
			require.NoError(t, err)
			body = z
		}
		// A second scrape through the same handler reuses the first one's buffers.
		again := httptest.NewRecorder()
		handler.ServeHTTP(again, req)
		if again.Body.Len() != size {
			t.Errorf("compression %v, Accept-Encoding %q: %d bytes, then %d", c.on, c.accept, size, again.Body.Len())
		}
		if text, err := io.ReadAll(body); err != nil || !strings.Contains(string(text), "gpuscale_exporter_build_info{") {
			t.Errorf("compression %v, Accept-Encoding %q: %v\n%s", c.on, c.accept, err, text)
		}
	}
}

// New counters continue the totals of the previous ones.
func TestReloadKeepsTotals(t *testing.T) {
	inBubble(t, &script{}, time.Second, func(t *testing.T, n *Node) {
		seconds := func() float64 {
			_, rest, _ := strings.Cut(body(t, n), "\ngpu_busy_seconds_total{")
			_, rest, _ = strings.Cut(rest, "} ")
			text, _, _ := strings.Cut(rest, "\n")
			v, err := strconv.ParseFloat(text, 64)
			require.NoError(t, err)
			return v
		}
		pass(4 * time.Second)
		before := seconds()
		n.Reload([]counters.Field{util})
		pass(2 * time.Second)
		if after := seconds(); before != 1 || after != 1.5 || !strings.Contains(body(t, n), "DCGM_FI_DEV_GPU_UTIL{") {
			t.Errorf("a quarter of 4 s, then of 6 s: %g and %g\n%s", before, after, body(t, n))
		}
	})
}

// A source that answers without a value, or with old ones, serves nothing: the node is not ready and the source is not
// up.
func TestReadyNeedsAValue(t *testing.T) {
	for name, test := range map[string]struct {
		values []collect.Value
		want   string
	}{
		"no value":   {nil, "the newest reading has no value"},
		"old values": {[]collect.Value{{Field: 203, Number: 1, Time: time.Now().Add(-time.Hour)}}, "the newest value is"},
		"a value":    {[]collect.Value{{Field: 203, Number: 1, Time: time.Now().Add(time.Hour)}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := begin(t, Options{Source: constant{collect.Entity{Kind: collect.GPU, UUID: "GPU-a", Values: test.values}}})
			await.True(t, time.Minute, "a page", func() bool { return n.page.Load() != nil })
			err, up := n.Ready(), n.sourceUp()
			if test.want == "" && (err != nil || up != 1) {
				t.Errorf("ready: %v, up %v", err, up)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || up != 0) {
				t.Errorf("ready: %v, up %v", err, up)
			}
		})
	}
}

// constant is a source whose readings have one entity.
type constant struct{ entity collect.Entity }

func (constant) Watch([]uint16, time.Duration, map[uint16]time.Duration) {}
func (constant) Close() error                                            { return nil }
func (c constant) Read() (*collect.Reading, error) {
	return &collect.Reading{Taken: time.Now(), Entities: []collect.Entity{c.entity}}, nil
}
