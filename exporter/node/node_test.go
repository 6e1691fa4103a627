package node

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
)

// script is a source that does as it is told.
type script struct {
	hang atomic.Pointer[chan struct{}] // Read waits for it
	fail atomic.Pointer[error]
}

func (s *script) Watch([]uint16, time.Duration) error { return nil }
func (s *script) Close() error                        { return nil }
func (s *script) Read() (*collect.Reading, error) {
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

// often is the interval of tests that need readings to follow each other. Values go
// stale 2.5 intervals later, which a busy machine may take to draw breath: such a test
// waits for what a page has, and never looks once.
const often = 100 * time.Millisecond

// begin runs a node until the test ends. Without an interval there is one reading, at
// once, and it does not go stale.
func begin(t *testing.T, o Options) *Node {
	t.Helper()
	o.Name = "node-1"
	if o.Interval == 0 {
		o.Interval = 10 * time.Minute
	}
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); n.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return n
}

func scrape(n *Node, accept string) *http.Response {
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	n.Handler().ServeHTTP(rec, req)
	return rec.Result()
}

func body(t *testing.T, n *Node) string {
	t.Helper()
	b, err := io.ReadAll(scrape(n, "").Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func ready(n *Node) func() bool { return func() bool { return n.Ready() == nil } }

func TestHangingSourceBlocksNoScrape(t *testing.T) {
	s := &script{}
	n := begin(t, Options{Source: s, Interval: often})
	await.True(t, time.Minute, "a value", func() bool { return strings.Contains(body(t, n), "gpu_busy_ratio{") })
	release := make(chan struct{})
	s.hang.Store(&release)
	await.True(t, time.Minute, "not ready", func() bool { return n.Ready() != nil })
	got := body(t, n) // it would never come back if it waited for the source
	if strings.Contains(got, "gpu_busy_ratio{") {
		t.Error("an old value is served as if it were one")
	}
	if !strings.Contains(got, "gpu_sample_age_seconds{") {
		t.Errorf("nothing says that values are old:\n%s", got)
	}
	await.True(t, time.Minute, "old values are counted", func() bool {
		got := body(t, n)
		return strings.Contains(got, `dropped_total{reason="stale"}`) && !strings.Contains(got, `dropped_total{reason="stale"} 0`)
	})
	if err := n.Ready(); !strings.Contains(err.Error(), "the source has not answered since") {
		t.Errorf("ready: %v", err)
	}
	if err := n.Live(); err != nil {
		t.Errorf("a hanging driver must not restart the exporter: %v", err)
	}
	s.hang.Store(nil)
	close(release)
	await.True(t, time.Minute, "ready again", ready(n))
}

func TestSourceThatComesLater(t *testing.T) {
	s := &script{}
	refused := errors.New("connection refused")
	s.fail.Store(&refused)
	n := begin(t, Options{Source: s, Interval: often})
	await.True(t, time.Minute, "the reason shows", func() bool { return errors.Is(n.Ready(), refused) })
	if got := body(t, n); !strings.Contains(got, "gpuscale_exporter_source_up") {
		t.Errorf("no self-metrics before the first reading:\n%s", got)
	}
	s.fail.Store(nil)
	await.True(t, time.Minute, "ready", ready(n))
	failure := errors.New("GPU is lost")
	s.fail.Store(&failure)
	await.True(t, time.Minute, "the failure shows", func() bool { return errors.Is(n.Ready(), failure) })
	await.True(t, time.Minute, "source_up is 0", func() bool { return strings.Contains(body(t, n), "gpuscale_exporter_source_up 0") })
	s.fail.Store(nil)
	await.True(t, time.Minute, "ready again", ready(n))
}

func TestNegotiation(t *testing.T) {
	n := begin(t, Options{Source: &script{}, Compat: collect.CompatOptions{
		Counters: []counters.Field{{ID: 203, Name: "DCGM_FI_DEV_GPU_UTIL", Kind: counters.Gauge, Help: "u"}},
	}})
	await.True(t, time.Minute, "ready", ready(n))
	for _, accept := range []string{
		"", "text/plain;version=0.0.4", "application/openmetrics-text;version=1.0.0",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	} {
		resp := scrape(n, accept)
		if accept == "application/openmetrics-text;version=1.0.0" {
			b, _ := io.ReadAll(resp.Body)
			if !strings.HasSuffix(string(b), "\n# EOF\n") || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/openmetrics-text") {
				t.Errorf("OpenMetrics: %s\n%s", resp.Header.Get("Content-Type"), b)
			}
			continue
		}
		names := decode(t, resp)
		for _, want := range []string{"gpu_busy_ratio", "DCGM_FI_DEV_GPU_UTIL", "gpuscale_exporter_reads_total"} {
			if names[want] != 1 {
				t.Errorf("Accept %q: %s is there %d times", accept, want, names[want])
			}
		}
	}
}

func decode(t *testing.T, resp *http.Response) map[string]int {
	t.Helper()
	decoder := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header))
	names := map[string]int{}
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names[family.GetName()]++
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

type oneCard struct {
	podresources.UnimplementedPodResourcesListerServer
	pod atomic.Pointer[string]
}

func (k *oneCard) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{
		Namespace: "ns", Name: *k.pod.Load(), Containers: []*podresources.ContainerResources{{
			Name: "main", Devices: []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"GPU-a"}}},
		}},
	}}}, nil
}

func TestHolders(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k, pod := &oneCard{}, "first"
	k.pod.Store(&pod)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	watcher, err := pods.New(pods.Options{Socket: socket, Interval: 100 * time.Millisecond, Keep: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	n := begin(t, Options{Source: &script{}, Pods: watcher, Interval: 2 * time.Second})
	await.True(t, time.Minute, "ready", ready(n))
	if got := body(t, n); !strings.Contains(got, `model="L40S",namespace="ns",pod="first",container="main"} 0.25`) {
		t.Errorf("the first page has no holder:\n%s", got)
	}
	pod2 := "second"
	k.pod.Store(&pod2)
	await.True(t, time.Minute, "the new holder", func() bool { return strings.Contains(body(t, n), `pod="second"`) })

	server.Stop()
	await.True(t, time.Minute, "the failure is counted", func() bool { return n.attributionErrors() > 0 })
	if got := body(t, n); !strings.Contains(got, `pod="second"`) {
		t.Error("identity flips as soon as the kubelet is away")
	}
	await.True(t, time.Minute, "the map is given up", func() bool { return !strings.Contains(body(t, n), `pod="second"`) })
	if got := body(t, n); !strings.Contains(got, "gpu_attribution_age_seconds{") || strings.Contains(got, "gpu_held{") {
		t.Errorf("the age must stay and the holder go:\n%s", got)
	}
}

// What the catalogue says the exporter emits about itself is what it emits.
func TestSelfMetricsAreTheCatalogues(t *testing.T) {
	m := newMetrics(func() float64 { return 0 })
	m.dropped(map[string]int{"blank": 1})
	m.overBudget(map[string]int{"gpu_held": 1})
	m.nodeWrites.WithLabelValues("event", "ok")
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
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

func TestNewRefuses(t *testing.T) {
	s := &script{}
	for _, o := range []Options{{Name: "n", Source: s, Interval: time.Millisecond}, {Source: s, Interval: time.Second}, {Name: "n", Interval: time.Second}} {
		if _, err := New(o); err == nil {
			t.Errorf("accepted %+v", o)
		}
	}
}

// Whatever a pod calls its labels, a scrape can be parsed and says who is who.
func TestHostileLabels(t *testing.T) {
	hostile := map[string]string{
		"gpu": "7", "UUID": "GPU-z", "a.b": "1", "a-b": "2", "a_b": "3", "__name__": "gpu_busy_ratio", "le": "+Inf",
		"quote": "\"} 1\nDCGM_FI_DEV_GPU_UTIL{gpu=\"9\"} 99", "back": `\`, "bytes": "\xff\x00", "1st": "x", "": "empty", "日本": "y",
	}
	n := begin(t, Options{
		Source: &script{}, Compress: true,
		Compat: collect.CompatOptions{Counters: []counters.Field{{ID: 203, Name: "DCGM_FI_DEV_GPU_UTIL", Kind: counters.Gauge, Help: "u"}}},
		Pods:   holding(t, "evil\"} 1\n"),
		Extras: func() collect.Extras {
			return collect.Extras{Pods: map[collect.PodName]string{{Namespace: "ns", Name: "evil\"} 1\n"}: collect.PodLabels("uid", hostile)}}
		},
	})
	await.True(t, time.Minute, "ready", ready(n))
	decoder := expfmt.NewDecoder(scrape(n, "").Body, expfmt.NewFormat(expfmt.TypeTextPlain))
	for {
		var family dto.MetricFamily
		err := decoder.Decode(&family)
		if errors.Is(err, io.EOF) {
			t.Fatal("no DCGM_FI_DEV_GPU_UTIL")
		}
		if err != nil {
			t.Fatal(err)
		}
		if family.GetName() != "DCGM_FI_DEV_GPU_UTIL" {
			continue
		}
		got := map[string]string{}
		for _, l := range family.GetMetric()[0].GetLabel() {
			if _, twice := got[l.GetName()]; twice {
				t.Errorf("label %s is there twice", l.GetName())
			}
			got[l.GetName()] = l.GetValue()
		}
		if len(family.GetMetric()) != 1 || got["gpu"] != "0" || got["UUID"] != "GPU-a" || got["pod_label_gpu"] != "7" || got["back"] != `\` || got["pod"] != "evil\"} 1\n" {
			t.Errorf("%d series, labels %q", len(family.GetMetric()), got)
		}
		return
	}
}

// holding is a kubelet whose one pod holds the script's card.
func holding(t *testing.T, pod string) *pods.Watcher {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	k := &oneCard{}
	k.pod.Store(&pod)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	watcher, err := pods.New(pods.Options{Socket: socket, Interval: 100 * time.Millisecond, Keep: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return watcher
}

func TestCompression(t *testing.T) {
	for _, c := range []struct {
		on     bool
		accept string
		want   string
	}{
		{false, "gzip", ""}, {true, "", ""}, {true, "gzip", "gzip"}, {true, "br, gzip;q=0.5", "gzip"}, {true, "gzip;q=0", ""},
		{true, "*", "gzip"}, {true, "*;q=1, gzip;q=0.0", ""}, {true, "deflate", ""},
	} {
		n, err := New(Options{Name: "n", Source: &script{}, Interval: time.Second, Compress: c.on})
		if err != nil {
			t.Fatal(err)
		}
		rec, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
		req.Header.Set("Accept-Encoding", c.accept)
		handler := n.Handler()
		handler.ServeHTTP(rec, req)
		var body io.Reader = rec.Body
		size := rec.Body.Len()
		if got := rec.Header().Get("Content-Encoding"); got != c.want {
			t.Errorf("compression %v, Accept-Encoding %q: %q, want %q", c.on, c.accept, got, c.want)
		} else if got == "gzip" {
			if body, err = gzip.NewReader(rec.Body); err != nil {
				t.Fatal(err)
			}
		}
		// A second scrape through the same handler uses the first one's buffers again.
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

// New counters begin nothing anew.
func TestReloadKeepsWhatAddedUp(t *testing.T) {
	n := begin(t, Options{Source: &script{}, Interval: often})
	seconds := func() float64 {
		for line := range strings.Lines(body(t, n)) {
			if series, text, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(series, "gpu_busy_seconds_total{") {
				v, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
		}
		return 0
	}
	await.True(t, time.Minute, "seconds add up", func() bool { return seconds() > 0.1 })
	before := seconds()
	n.Reload([]counters.Field{{ID: 203, Name: "DCGM_FI_DEV_GPU_UTIL", Kind: counters.Gauge, Help: "u"}})
	await.True(t, time.Minute, "the new counters", func() bool { return strings.Contains(body(t, n), "DCGM_FI_DEV_GPU_UTIL{") })
	if after := seconds(); after < before {
		t.Errorf("the busy seconds fell from %g to %g", before, after)
	}
}
