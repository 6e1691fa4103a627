package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/pods"
	"github.com/gpuscale/gpuscale/internal/require"
)

// taker records the counters that it is to serve.
type taker struct {
	fields []counters.Field
	good   int
	bad    int
}

func (t *taker) Reload(f []counters.Field) { t.fields, t.good = f, t.good+1 }
func (t *taker) ReloadFailed()             { t.bad++ }

// The effects of a series of changes of the file.
func TestReloader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.csv")
	const one, two = "DCGM_FI_DEV_GPU_UTIL, gauge, u\n", "DCGM_FI_DEV_GPU_TEMP, gauge, t\n"
	write(t, path, one)
	file, err := readCountersFile(path)
	require.NoError(t, err)
	var log bytes.Buffer
	node := &taker{}
	r := &reloader{
		load: func(context.Context) (counters.File, error) { return readCountersFile(path) },
		node: node, log: slog.New(slog.NewTextHandler(&log, nil)), current: inText(file, nil),
	}
	for _, step := range []struct {
		name, text string
		good, bad  int
		says       string
	}{
		{"touched", one, 0, 0, ""},
		{"a comment more", one + "# hello\n", 0, 0, ""},
		{"other counters", one + two, 1, 0, "counters read"},
		{"a mistake", "DCGM_FI_DEV_GPU_UTILL, gauge, u\n", 1, 1, "c.csv:1: field: no DCGM field is called"},
		{"the same mistake", "DCGM_FI_DEV_GPU_UTILL, gauge, u\n", 1, 1, ""},
		{"another", "DCGM_FI_DEV_GPU_UTIL, gage, u\n", 1, 2, "want gauge, counter, untyped or label"},
		{"mended, as it was before", one + two, 2, 2, "counters read"},
		{"two lines for one", two + two, 3, 2, "is on line 1 already"},
		{"a mistake", "DCGM_FI_DEV_GPU_UTIL, gage, u\n", 3, 3, "want gauge, counter, untyped or label"},
		{"mended, on a hangup", two + two, 4, 3, "counters read"},
	} {
		log.Reset()
		write(t, path, step.text)
		asked := strings.HasSuffix(step.name, "on a hangup")
		if r.reload(t.Context(), asked); log.Len() > 0 && !asked {
			t.Errorf("%s: what may be half a file is taken", step.name)
		}
		r.reload(t.Context(), false)
		if node.good != step.good || node.bad != step.bad {
			t.Errorf("%s: %d good and %d bad, want %d and %d", step.name, node.good, node.bad, step.good, step.bad)
		}
		if output := log.String(); (output == "") != (step.says == "") || !strings.Contains(output, step.says) {
			t.Errorf("%s: log %q, want %q", step.name, output, step.says)
		}
	}
	require.NoError(t, os.Remove(path))
	r.reload(t.Context(), true)
	if node.bad != 4 || len(node.fields) != 1 {
		t.Errorf("after the file went: %d bad, %d fields served", node.bad, len(node.fields))
	}
	// An API server that is away for a moment makes no counters invalid.
	r.remote, r.load = true, func(context.Context) (counters.File, error) { return counters.File{}, http.ErrServerClosed }
	for bad := range 2 {
		if r.reload(t.Context(), false); node.bad != 4+bad {
			t.Errorf("away %d times: %d bad", bad+1, node.bad)
		}
	}
}

// -m reads one object with the account's token, and reports what is wrong.
func TestCountersFromConfigMap(t *testing.T) {
	var asked atomic.Pointer[string]
	data := map[string]string{"metrics": "DCGM_FI_DEV_GPU_UTIL, gauge, u\n"}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization")
		asked.Store(&path)
		if !strings.HasSuffix(r.URL.Path, "/counters") {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"configmaps \"other\" is forbidden"}`))
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "ConfigMap", "data": data})
	}))
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, kubeconfig, `{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
		"clusters":[{"name":"c","cluster":{"server":"`+server.URL+`","certificate-authority-data":"`+base64.StdEncoding.EncodeToString(authority)+`"}}],"users":[{"name":"u","user":{"token":"secret"}}]}`)
	t.Setenv("KUBECONFIG", kubeconfig)
	api, err := pods.Connect()
	require.NoError(t, err)

	file, err := readCountersMap(t.Context(), api, "gpu:counters")
	if err != nil || len(file.Fields) != 1 {
		t.Errorf("%d fields, %v", len(file.Fields), err)
	}
	if want := "GET /api/v1/namespaces/gpu/configmaps/counters Bearer secret"; *asked.Load() != want {
		t.Errorf("asked %q, want %q", *asked.Load(), want)
	}
	data = map[string]string{"metrics": "nonsense"}
	if _, err := readCountersMap(t.Context(), api, "gpu:counters"); err == nil || !strings.Contains(err.Error(), "gpu:counters/metrics:1: 1 columns, want 3") {
		t.Errorf("err = %v", err)
	}
	data = map[string]string{"other": ""}
	if _, err := readCountersMap(t.Context(), api, "gpu:counters"); err == nil || !strings.Contains(err.Error(), `no key "metrics"`) {
		t.Errorf("err = %v", err)
	}
	if _, err := readCountersMap(t.Context(), api, "gpu:other"); err == nil || !strings.Contains(err.Error(), `"other" is forbidden`) {
		t.Errorf("err = %v", err)
	}
}

// A ConfigMap as the kubelet mounts it: the file is a link through ..data, and an update moves ..data. During an update
// every scrape has one of the two pages, complete.
func TestReloadWithoutGap(t *testing.T) {
	t.Parallel()
	mount := t.TempDir()
	version := func(name, text string) {
		write(t, filepath.Join(mount, name, "counters.csv"), text)
		link := filepath.Join(mount, "..data_tmp")
		require.NoError(t, os.Symlink(name, link))
		require.NoError(t, os.Rename(link, filepath.Join(mount, "..data")))
	}
	version("..v1", "DCGM_FI_DEV_POWER_USAGE, gauge, p\nDCGM_FI_DEV_GPU_UTIL, gauge, u\n")
	path := filepath.Join(mount, "counters.csv")
	require.NoError(t, os.Symlink("..data/counters.csv", path))
	// Values become stale 2.5 intervals later, and a page without values is neither of the two. So the interval is one
	// that a busy machine keeps.
	e := start(t, "--replay", "testdata/mixed.yaml", "-c", "1000", "-f", path)
	e.has(t, "DCGM_FI_DEV_POWER_USAGE{", "DCGM_FI_DEV_GPU_UTIL{", "gpuscale_exporter_reload_successful 1")

	version("..v2", "DCGM_FI_DEV_POWER_USAGE, gauge, p\nDCGM_FI_DEV_FB_USED, gauge, f\n")
	until(t, "the new counters", func() (bool, string) {
		_, body := get(t, e.base+"/metrics")
		if !strings.Contains(body, "DCGM_FI_DEV_POWER_USAGE{") || strings.Contains(body, "DCGM_FI_DEV_GPU_UTIL{") == strings.Contains(body, "DCGM_FI_DEV_FB_USED{") {
			t.Fatalf("a scrape between the pages:\n%s", body)
		}
		return strings.Contains(body, "DCGM_FI_DEV_FB_USED{"), body
	})
	e.has(t, `gpuscale_exporter_reload_total{result="ok"} 1`)

	version("..v3", "DCGM_FI_DEV_POWER_USAGE, gage, p\n")
	e.has(t, `gpuscale_exporter_reload_total{result="error"} 1`, "gpuscale_exporter_reload_successful 0", "DCGM_FI_DEV_FB_USED{")

	// A hangup reads the file at once, whatever the file system has reported.
	version("..v4", "DCGM_FI_DEV_GPU_TEMP, gauge, t\n")
	require.NoError(t, e.Signal(syscall.SIGHUP))
	e.has(t, "DCGM_FI_DEV_GPU_TEMP{", "gpuscale_exporter_reload_successful 1")
}
