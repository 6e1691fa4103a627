package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/query"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gpuscale-report": main, plugin: main})
}

// minutes is a recording of twenty minutes.
var minutes = sync.OnceValue(storyMinutes)

// TestScripts runs the command line against servers that answer with Prometheus' own engine: $PROM has twenty minutes
// of a cluster, $EMPTY nothing, $DENIED requires a credential, $ALONE has no autoscaler, $PAGE is a web page, and
// $NOWHERE refuses connections.
func TestScripts(t *testing.T) {
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	p := minutes().Prometheus
	p.Frozen = storyEnd
	urls := map[string]string{
		"PROM":  serve(p.Handler()),
		"ALONE": serve(storyMinutes().Prometheus.Without("gpuscale_autoscaler_").Handler()),
		"EMPTY": serve(newPrometheus().Handler()),
		"DENIED": serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer let-me-in" {
				http.Error(w, "who are you?", http.StatusUnauthorized)
				return
			}
			p.Handler().ServeHTTP(w, r)
		})),
		"SLOW":    serve(except(p.Handler(), "gpu_xid_errors_total", http.StatusServiceUnavailable, "query timed out in expression evaluation", -1)),
		"LIMITED": serve(except(p.Handler(), "gpu_xid_errors_total", http.StatusTooManyRequests, "not so fast", 1)),
		"REFUSED": serve(except(p.Handler(), "sum by (namespace", http.StatusUnprocessableEntity, "found duplicate series for the match group", -1)),
		"LOGIN":   serve(http.RedirectHandler("/login", http.StatusFound)),
		"PARTIAL": serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["a store is away"]}`)
		})),
		"PAGE": serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "<!DOCTYPE html><title>Grafana</title>")
		})),
		"GETONLY": serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not so", http.StatusMethodNotAllowed) })),
		"NOPATH": serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `unsupported path requested: "/x"`, http.StatusBadRequest)
		})),
		"TLS":     secured(t),
		"NOWHERE": "http://127.0.0.1:1",
		"EARLY":   storyEnd.Add(-37 * time.Minute).Format(time.RFC3339), // three minutes after the first series
		"UNTIL":   storyEnd.Format("2006-01-02T15:04:05Z07:00"),
	}
	urls["TLS_BY_HTTP"] = strings.Replace(urls["TLS"], "https:", "http:", 1)
	urls["HTTP_BY_TLS"] = strings.Replace(urls["EMPTY"], "http:", "https:", 1)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			for name, v := range urls {
				e.Setenv(name, v)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
	})
}

// secured is a server whose certificate no client here trusts.
func secured(t *testing.T) string {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshakes that fail
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// except answers queries of a series with an error, for that number of times, or always if negative.
func except(h http.Handler, series string, status int, why string, times int64) http.Handler {
	var met atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.FormValue("query"), series) && (times < 0 || met.Add(1) <= times) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"status":"error","errorType":"execution","error":"`+why+`"}`)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// exitsWith runs the program and compares its exit code: code 3 top.
func exitsWith(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: code N args...")
	}
	err := ts.Exec("gpuscale-report", args[1:]...)
	got := "0"
	if err != nil {
		got = err.Error()
	}
	if got != args[0] && got != "exit status "+args[0] {
		ts.Fatalf("got %s, want %s", got, args[0])
	}
}

// TestTerminal: a page is written to a terminal only on request, and a dumb terminal gets no escape sequences.
func TestTerminal(t *testing.T) {
	out, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("this machine has no terminals:", err)
	}
	defer out.Close()
	t.Setenv("PROMETHEUS_URL", "")
	for file, want := range map[string]string{"": "the page would fill this terminal", "-": "--prometheus-url is required"} {
		o := options{stdout: out, stderr: io.Discard, now: time.Now, form: "html", since: "1h", out: file, concurrency: 1}
		if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitUsage {
			t.Errorf("--out %q: %v", file, err)
		}
	}
	for kind, want := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("TERM", kind)
		if newProgress(out, false).on != want {
			t.Errorf("TERM=%s: is a bar painted? want %t", kind, want)
		}
	}
}

// TestReplace: a file is replaced atomically. A link stays and leads to the new page. A pipe or device is written into.
func TestReplace(t *testing.T) {
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	holds := func(name, want string) {
		t.Helper()
		if raw, err := os.ReadFile(at(name)); err != nil || string(raw) != want {
			t.Errorf("%s holds %q (%v), want %q", name, raw, err, want)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := replace(at(name), []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	write("page", "long enough to be seen")
	write("page", "new")
	holds("page", "new")
	require.NoError(t, os.Symlink("page", at("link")))
	write("link", "by the link")
	holds("page", "by the link")
	if info, err := os.Lstat(at("link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v, %v", info, err)
	}

	require.NoError(t, syscall.Mkfifo(at("pipe"), 0o600))
	read := make(chan string)
	go func() {
		f, err := os.Open(at("pipe"))
		if err != nil {
			read <- err.Error()
			return
		}
		raw, _ := io.ReadAll(f)
		_ = f.Close()
		read <- string(raw)
	}()
	write("pipe", "through")
	if info, err := os.Lstat(at("pipe")); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is gone: %v, %v", info, err) // its reader gets no data
	}
	if got := <-read; got != "through" {
		t.Errorf("the pipe brought %q", got)
	}
	left, err := filepath.Glob(at(".gpuscale-report-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left behind (%v)", left, err)
	}
	if err := replace(at("none/page"), nil); err == nil {
		t.Error("a folder that is not there was written into")
	}
	if err := replace("/dev/full", []byte("x")); err == nil {
		t.Error("a full disk took it")
	}
}

// looks is a fake with different answers for each repetition of a watch, which starts
// with the query for the spelling of labels.
type looks struct {
	query.Prometheus
	n     int
	fails map[int]error // by repetition, from 1
	last  func()
	end   int
}

func (l *looks) Query(ctx context.Context, promql string, at time.Time) (prom.Vector, error) {
	if !at.IsZero() {
		return nil, errors.New("now is by this machine's clock, which may be wrong, and not by the server's")
	}
	if strings.HasPrefix(promql, "count(gpu_held{") {
		l.n++
		if l.n == l.end {
			l.last()
		}
	}
	if err := l.fails[l.n]; err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return l.Prometheus.Query(ctx, promql, storyEnd)
}

func watched(t *testing.T, form string, l *looks) (out, errs string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	l.last = cancel
	tick := make(chan time.Time)
	go func() {
		for ctx.Err() == nil {
			select {
			case tick <- time.Time{}:
			case <-ctx.Done():
			}
		}
	}()
	var o, e bytes.Buffer
	err = topOptions{form: form, watch: true, out: &o, errs: &e}.again(ctx, l, tick)
	return o.String(), e.String(), err
}

// TestWatch repeats over an unreachable Prometheus and a missing exporter until it is
// interrupted, which is not an error. Errors go to standard error, so that YAML and JSON
// stay valid.
func TestWatch(t *testing.T) {
	l := &looks{Prometheus: minutes().Prometheus, fails: map[int]error{2: prom.ErrUnavailable}, end: 4}
	out, errs, err := watched(t, "yaml", l)
	if err != nil {
		t.Errorf("interrupted, it ends with %v", err)
	}
	if n := strings.Count(out, "---\n"); n != 2 || strings.Contains(out, "unavailable") {
		t.Errorf("%d documents, want those of looks 1 and 3", n)
	}
	if !strings.Contains(errs, "unavailable") {
		t.Errorf("the outage of Prometheus is not reported: %q", errs)
	}
	if _, errs, err = watched(t, "table", &looks{Prometheus: newPrometheus(), end: 3}); err != nil || strings.Count(errs, "that it scrapes gpuscale-exporter") != 2 {
		t.Errorf("without an exporter: %v, %q", err, errs)
	}
	denied := errors.New("HTTP 401")
	if _, _, err = watched(t, "table", &looks{Prometheus: minutes().Prometheus, fails: map[int]error{2: denied}, end: 5}); !errors.Is(err, denied) {
		t.Errorf("a refused credential ends it, not %v", err)
	}
}
