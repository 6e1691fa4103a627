package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/doctor"
	"github.com/gpuscale/gpuscale/report/doctor/fakeapi"
)

// TestDoctorScripts plays the command line against fake API servers: $WELL has a healthy
// installation, $FROZEN one with a frozen pool, $BROKEN one without its APIServices,
// $BARE nothing, $DENIED may not be read. $ANSWERS is a fake Prometheus of a healthy
// installation.
func TestDoctorScripts(t *testing.T) {
	base := string(mustRead(t, "doctor/testdata/base.yaml"))
	for _, crd := range []string{"gpunodepools", "gpuquotas"} {
		base += "\n---\n" + strings.TrimPrefix(string(mustRead(t, "../deploy/chart/gpuscale/files/crds/gpuscale.io_"+crd+".yaml")), "---\n")
	}
	serve := func(h http.Handler) string {
		s := httptest.NewServer(h)
		t.Cleanup(s.Close)
		return s.URL
	}
	api := func(text string, change func(*fakeapi.Server)) string {
		s, err := fakeapi.New(text)
		require.NoError(t, err)
		names := `{"resources":[{"name":"pods/queue_depth"},{"name":"pods/gpu_busy"}]}`
		s.Extra["/apis/custom.metrics.k8s.io/v1beta2"], s.Extra["/apis/external.metrics.k8s.io/v1beta1"] = names, names
		change(s)
		return serve(renewed(s))
	}
	same := func(*fakeapi.Server) {}
	var withoutAPIs []string
	for doc := range strings.SplitSeq(base, "\n---\n") {
		if !strings.Contains(doc, "kind: APIService") {
			withoutAPIs = append(withoutAPIs, doc)
		}
	}
	clusters := map[string]string{
		"WELL":   api(base, same),
		"FROZEN": api(strings.Replace(base, "  min: 1\n", "  min: 1\n  freeze: true\n", 1), same),
		"BROKEN": api(strings.Join(withoutAPIs, "\n---\n"), same),
		"BARE":   api("", same),
		"DENIED": api(base, func(s *fakeapi.Server) { s.Denied = []string{"/api/", "/apis/"} }),
		"GONE":   "http://127.0.0.1:1",
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/doctor",
		Setup: func(e *testscript.Env) error {
			for name, url := range clusters {
				file := filepath.Join(e.WorkDir, strings.ToLower(name)+".kubeconfig")
				if err := os.WriteFile(file, []byte(kubeconfig(url)), 0o600); err != nil {
					return err
				}
				e.Setenv(name, file)
			}
			e.Setenv("ANSWERS", serve(answering(t)))
			e.Setenv("NOWHERE", "http://127.0.0.1:1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
	})
}

// renewed answers as an API server whose Leases are renewed: their renewal times are the
// time of the request.
func renewed(s http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		s.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(bytes.ReplaceAll(answer.Body.Bytes(), []byte("2026-03-02T08:59:58.000000Z"), []byte(time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"))))
	})
}

func kubeconfig(url string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: %q}}]
users: [{name: u, user: {}}]
contexts: [{name: here, context: {cluster: c, user: u}}, {name: there, context: {cluster: c, user: u}}]
`, url)
}

// answering is a fake Prometheus that answers doctor's queries, and no others, from
// doctor/testdata/base.answers. Times are those of the request, and of half a minute
// before it where VictoriaMetrics (1.146) would answer as of then: it looks as far back
// as its -search.latencyOffset unless latency_offset says otherwise.
func answering(t *testing.T) http.Handler {
	samples, err := fakeapi.Answers(string(mustRead(t, "doctor/testdata/base.answers")))
	require.NoError(t, err)
	answers := map[string]prom.Vector{}
	for _, d := range doctor.Table {
		answers[doctor.Written(d.Query, "")] = samples[strings.TrimPrefix(d.Name, "prometheus: ")]
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/status/runtimeinfo") {
			fmt.Fprint(w, `{"status":"success","data":{"storageRetention":"90d or 1TiB"}}`)
			return
		}
		samples, known := answers[r.FormValue("query")]
		if !known {
			http.Error(w, "query unknown to this fake", http.StatusBadRequest)
			return
		}
		result, now := []any{}, time.Now().Unix()
		if r.FormValue("latency_offset") != "1ms" {
			now -= 30
		}
		for _, s := range samples {
			if s.Value > 1e9 { // a moment
				s.Value = float64(now)
			}
			result = append(result, map[string]any{"metric": s.Labels.Map(), "value": []any{now, fmt.Sprint(s.Value)}})
		}
		raw, err := json.Marshal(result)
		if err != nil {
			panic(err)
		}
		// In Prometheus' order.
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":%s}}`, raw)
	})
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return raw
}
