package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}

func TestReadyzSaysWhy(t *testing.T) {
	reason := errors.New("no reading yet")
	srv := httptest.NewServer(handler(Options{Ready: func() error { return reason }}))
	defer srv.Close()
	if code, body := get(t, srv.URL+"/readyz"); code != 503 || body != "not ready: no reading yet\n" {
		t.Errorf("readyz = %d %q", code, body)
	}
	if code, body := get(t, srv.URL+"/livez"); code != 200 || body != "ok\n" {
		t.Errorf("livez = %d %q", code, body)
	}
	reason = nil
	if code, _ := get(t, srv.URL+"/readyz"); code != 200 {
		t.Errorf("readyz = %d once ready", code)
	}
	if code, _ := get(t, srv.URL+"/metrics"); code != 404 {
		t.Errorf("metrics = %d where there are none", code)
	}
}

func TestAddressInUse(t *testing.T) {
	first, err := listen("127.0.0.1:0")
	require.NoError(t, err)
	defer first.Close()
	_, err = listen(first.Addr().String())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), first.Addr().String()+": the address is in use") {
		t.Errorf("err = %v", err)
	}
}

func TestUnixSocketReplacedOnlyWhenDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listen("unix:" + path)
	require.NoError(t, err)
	if _, err := listen("unix:" + path); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("second listener on a live socket: %v", err)
	}
	keepFile(t, first)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("the test wants the file left behind: %v", err)
	}
	second, err := listen("unix:" + path)
	if err != nil {
		t.Fatalf("dead socket not replaced: %v", err)
	}
	_ = second.Close()
}

// keepFile closes a unix listener as a killed process would: the file stays.
func keepFile(t *testing.T, l interface{ Close() error }) {
	t.Helper()
	if u, ok := l.(interface{ SetUnlinkOnClose(bool) }); ok {
		u.SetUnlinkOnClose(false)
	}
	require.NoError(t, l.Close())
}

func TestRunFinishesOpenRequests(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s, err := New(Options{Address: "127.0.0.1:0", Routes: func(m *http.ServeMux) {
		m.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
			close(entered)
			<-release
			_, _ = io.WriteString(w, "done")
		})
	}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	answer := make(chan string, 1)
	go func() {
		_, body := get(t, "http://"+s.Addr().String()+"/slow")
		answer <- body
	}()
	<-entered
	cancel()
	await.For(t, time.Minute, "the port is closed", func() error {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			return nil
		}
		return errors.Join(errors.New("it is open"), c.Close())
	})
	select {
	case <-ended:
		t.Fatal("Run returned with a request open")
	default:
	}
	close(release)
	if got := <-answer; got != "done" {
		t.Errorf("open request got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestBasicAuthFromWebConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yml")
	// The password is "test"; cost 4 keeps the test quick.
	config := "basic_auth_users:\n  prom: $2y$04$ki3qrlrLYjOLskqpOeQyN.7Gvgg6vUMRTpK.tmJ1YcUA5YTjGM6w.\n"
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	s, err := New(Options{Address: "127.0.0.1:0", WebConfigFile: file})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if code, _ := get(t, "http://"+s.Addr().String()+"/livez"); code != http.StatusUnauthorized {
		t.Errorf("without a password: %d, want 401", code)
	}
	cancel()
	require.NoError(t, <-ended)
	if _, err := New(Options{Address: "127.0.0.1:0", WebConfigFile: file + ".missing"}); err == nil {
		t.Error("a missing web config file was accepted")
	}
}

func TestMetricsNegotiatesOpenMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "x_total", Help: "X."}))
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	rec := httptest.NewRecorder()
	Metrics(reg, slog.New(slog.DiscardHandler)).ServeHTTP(rec, req)
	if !strings.HasSuffix(rec.Body.String(), "# EOF\n") {
		t.Errorf("not OpenMetrics:\n%s", rec.Body)
	}
}

// deadlines records the deadline of an answer.
type deadlines struct {
	*httptest.ResponseRecorder
	write time.Time
}

func (d *deadlines) SetWriteDeadline(at time.Time) error {
	d.write = at
	return nil
}

// Clients that send or read without end, which any pod may be, occupy neither connections nor pages for long.
func TestSlowClients(t *testing.T) {
	s, err := New(Options{Address: "127.0.0.1:0"})
	require.NoError(t, err)
	defer s.Close()
	if s.http.ReadTimeout == 0 || s.http.ReadHeaderTimeout == 0 || s.http.IdleTimeout == 0 {
		t.Errorf("a client that sends without end keeps its connection: %+v", s.http)
	}
	entered, release := make(chan struct{}), make(chan struct{})
	pages := Metrics(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		entered <- struct{}{}
		<-release
		return nil, nil
	}), slog.New(slog.DiscardHandler))
	ask := func() *deadlines {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w
	}
	var served sync.WaitGroup
	for range maxScrapes {
		served.Go(func() {
			if w := ask(); w.Code != http.StatusOK || w.write.IsZero() {
				t.Errorf("%d, to be written by %s", w.Code, w.write)
			}
		})
		<-entered
	}
	if w := ask(); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one more than %d scrapes at once: %d", maxScrapes, w.Code)
	}
	close(release)
	served.Wait()
}
