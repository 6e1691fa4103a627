package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/require"
)

// The whole program over HTTP. Many manifests for dcgm-exporter have one dash before a long flag; flags that have no
// effect are accepted.
func TestWeb(t *testing.T) {
	t.Parallel()
	// With this interval the first reading stays fresh during the test.
	e := start(t, "--replay", "testdata/mixed.yaml", "-collect-interval", "60000", "--enable-exporter-metrics", "-k", "--kubernetes-enable-pod-labels",
		"--pod-resources-kubelet-socket", serveKubelet(t), "--enable-gpu-bind-unbind-watch", "--fake-gpus")
	e.has(t, "go_goroutines ", "process_resident_memory_bytes ", "gpuscale_exporter_source_up 1",
		`gpu_held{node="node-1",gpu="0",gpu_uuid="GPU-aaaaaaaa-0000-0000-0000-000000000000",namespace="chat",pod="vllm-0",container="main",gpu_instance_id="1",profile="3g.40gb"} 1`,
		`gpu_busy_ratio{node="node-1",gpu="1",gpu_uuid="GPU-bbbbbbbb-0000-0000-0000-000000000000",model="NVIDIA L40S",namespace="batch",pod="train-0",container="main"} 0.37`,
		`hostname="node-1",DCGM_FI_DRIVER_VERSION="580.65.06",container="main",namespace="batch",pod="train-0"} 37`,
	)
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/":              {200, `<a href="./metrics">Metrics</a>`},
		"/health":        {200, "OK"},
		"/livez":         {200, "ok"},
		"/readyz":        {200, "ok"},
		"/debug/pprof/":  {404, ""},
		"/no-such-path":  {404, ""},
		"/metrics/other": {404, ""},
	} {
		if code, body := get(t, e.base+path); code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s = %d %q", path, code, body)
		}
	}
	resp, err := http.Get(e.base + "/health")
	require.NoError(t, err)
	resp.Body.Close()
	for name, want := range map[string]string{"X-Registry-Available": "true", "X-Reload-In-Progress": "", "X-Content-Type-Options": "nosniff"} {
		if got := resp.Header.Get(name); got != want {
			t.Errorf("/health: %s: %q, want %q", name, got, want)
		}
	}
	e.terminate(t)
}

// Without a reading /health is 200, as in dcgm-exporter, unless GPUs are required. Its headers show the state.
func TestHealthWithoutGPU(t *testing.T) {
	t.Parallel()
	// A recording whose GPU goes at once and does not return during the test.
	path := filepath.Join(t.TempDir(), "empty.yaml")
	write(t, path, "- {seconds: 0.001, gpus: [{gpu: 0, uuid: GPU-a}]}\n- seconds: 3600\n")
	e := start(t, "--replay", path, "-c", "100", "--health-require-gpus")
	until(t, "503", func() (bool, string) {
		code, body := get(t, e.base+"/health")
		return code == http.StatusServiceUnavailable && body == "no GPU is seen", body
	})
	e = start(t, "--replay", path, "-c", "100")
	if code, body := get(t, e.base+"/health"); code != 200 || !strings.HasPrefix(body, "OK") {
		t.Errorf("/health = %d %q", code, body)
	}
}

// Profiles are served on request, and only with the password.
func TestPprof(t *testing.T) {
	t.Parallel()
	hash, err := bcrypt.GenerateFromPassword([]byte("test"), bcrypt.MinCost)
	require.NoError(t, err)
	config := filepath.Join(t.TempDir(), "web.yml")
	write(t, config, "basic_auth_users:\n  prom: "+string(hash)+"\n")
	e := start(t, "--replay", "testdata/mixed.yaml", "-c", "100", "--enable-pprof", "--web-config-file", config)
	if code, _ := get(t, e.base+"/debug/pprof/"); code != http.StatusUnauthorized {
		t.Errorf("without a password: %d", code)
	}
	authed := strings.Replace(e.base, "http://", "http://prom:test@", 1)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		if code, body := get(t, authed+path); code != http.StatusOK || body == "" {
			t.Errorf("%s = %d", path, code)
		}
	}
}

// systemd binds the socket and passes it on as descriptor 3.
func TestSystemdSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	require.NoError(t, err)
	defer file.Close()
	// LISTEN_PID must be the process' own, which a shell knows before exec.
	cmd := exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec gpuscale-exporter --web-systemd-socket --replay testdata/mixed.yaml -c 100 -a 192.0.2.1:1`)
	cmd.Env = append(os.Environ(), "NODE_NAME=node-1")
	cmd.ExtraFiles = []*os.File{file}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	_, _ = file.Close(), l.Close() // the child's copy is the only one: its end refuses connections
	(&exporter{base: "http://" + l.Addr().String()}).has(t, "DCGM_FI_DEV_POWER_USAGE{")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, &stderr)
	}

	alone := exec.Command("gpuscale-exporter", "--web-systemd-socket", "--replay", "testdata/mixed.yaml")
	if out, err := alone.CombinedOutput(); err == nil || !strings.Contains(string(out), "serving on systemd's socket") {
		t.Errorf("without a socket: %v\n%s", err, out)
	}
}

// More concurrent scrapes than allowed are refused, and the next one is served.
func TestScrapesAreLimited(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	handler := limited(&config{maxScrapes: 1}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		entered <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "page")
	}))
	scrape := func() *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return rec
	}
	served := make(chan *httptest.ResponseRecorder)
	for _, when := range []string{"the first", "one later"} {
		go func() { served <- scrape() }()
		<-entered
		if rec := scrape(); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), "--max-concurrent-scrapes") {
			t.Errorf("beside %s: %d %s", when, rec.Code, rec.Body)
		}
		release <- struct{}{}
		if rec := <-served; rec.Code != http.StatusOK {
			t.Errorf("%s: %d", when, rec.Code)
		}
	}
}

// Jobs and dumps, through the whole program.
func TestJobsAndDumps(t *testing.T) {
	t.Parallel()
	jobs, dumps := t.TempDir(), filepath.Join(t.TempDir(), "dumps")
	write(t, filepath.Join(jobs, "1"), "train-7\n")
	e := start(t, "--replay", "testdata/mixed.yaml", "-c", "100", "--hpc-job-mapping-dir", jobs, "--dump-enabled", "--dump-directory", dumps)
	e.has(t, `hpc_job="train-7"} 37`)
	write(t, filepath.Join(jobs, "1"), "train-8\n")
	e.has(t, `hpc_job="train-8"} 37`)
	until(t, "a dump", func() (bool, string) {
		files, _ := os.ReadDir(dumps)
		return len(files) == 1 && regexp.MustCompile(`^reading-.*\.json\.gz$`).MatchString(files[0].Name()), "none"
	})
}

func TestPodText(t *testing.T) {
	pod := &pods.Pod{UID: "u", Labels: map[string]string{"app": "x", "team": "y", "application": "z"}}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, ``},
		{[]string{"--kubernetes-enable-pod-uid"}, `pod_uid="u"`},
		{[]string{"--kubernetes-enable-pod-labels"}, `app="x",application="z",team="y"`},
		{[]string{"--kubernetes-enable-pod-labels", "--kubernetes-pod-label-allowlist-regex", "^app$,^te"}, `app="x",team="y"`},
	} {
		config, err := parse(t, c.args, nil)
		require.NoError(t, err)
		if got := podText(config, pod); got != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
	if len(pod.Labels) != 3 {
		t.Error("the pod's labels were changed")
	}
}

// A short soak: dozens of readings and scrapes leave nothing behind. The long one is make bench-exporter ARGS="-soak
// 60s".
func TestSoak(t *testing.T) {
	t.Parallel()
	e := start(t, "--replay", "testdata/mixed.yaml", "-c", "100", "-k", "--pod-resources-kubelet-socket", serveKubelet(t), "--enable-exporter-metrics")
	const reads = `gpuscale_exporter_reads_total{result="ok"}`
	scrapesUntil := func(n float64) (page realPage) {
		until(t, "readings", func() (bool, string) {
			page = pageAt(t, e.base+"/metrics")
			return page[reads] >= n, fmt.Sprint(page[reads])
		})
		return page
	}
	before := scrapesUntil(10)
	for range 500 {
		get(t, e.base+"/metrics")
	}
	scrapesUntil(before[reads] + 20)
	// Leaks stay; garbage that is not collected yet, and connections that are not closed yet, do not.
	until(t, "nothing left behind", func() (bool, string) {
		after := pageAt(t, e.base+"/metrics")
		for series, most := range map[string]float64{"go_goroutines{}": 4, "process_open_fds{}": 4, "go_memstats_heap_inuse_bytes{}": 8 << 20} {
			if grown := after[series] - before[series]; grown > most || before[series] == 0 {
				return false, fmt.Sprintf("%s grew by %g, at most %g is none", series, grown, most)
			}
		}
		return true, ""
	})
}
