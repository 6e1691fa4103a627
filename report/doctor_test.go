package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/report/doctor"
)

// TestDoctorScripts plays the command line against fake API servers: $WELL has a healthy
// installation, $FROZEN one with a frozen pool, $BROKEN one without its APIServices,
// $BARE nothing, $DENIED may not be read. $ANSWERS is a fake Prometheus of a healthy
// installation.
func TestDoctorScripts(t *testing.T) {
	base := installed(t)
	for _, crd := range []string{"gpunodepools", "gpuquotas"} {
		base += "\n---\n" + strings.TrimPrefix(string(mustRead(t, "../deploy/chart/gpuscale/files/crds/gpuscale.io_"+crd+".yaml")), "---\n")
	}
	withoutAPIs := slices.DeleteFunc(strings.Split(base, "\n---\n"), func(doc string) bool { return strings.Contains(doc, "kind: APIService") })
	denied := newFakeAPI(t, base)
	denied.Denied = []string{"/api/", "/apis/"}
	clusters := map[string]string{
		"WELL":   newFakeAPI(t, base).URL,
		"FROZEN": newFakeAPI(t, strings.Replace(base, "  min: 1\n", "  min: 1\n  freeze: true\n", 1)).URL,
		"BROKEN": newFakeAPI(t, strings.Join(withoutAPIs, "\n---\n")).URL,
		"BARE":   newFakeAPI(t, "").URL,
		"DENIED": denied.URL,
		"GONE":   "http://127.0.0.1:1",
	}
	prometheus := httptest.NewServer(answering(t))
	t.Cleanup(prometheus.Close)
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
			e.Setenv("ANSWERS", prometheus.URL)
			e.Setenv("NOWHERE", "http://127.0.0.1:1")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": exitsWith},
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
	answers := map[string]promql.Vector{}
	for line := range strings.Lines(string(mustRead(t, "doctor/testdata/base.answers"))) {
		source, sample, _ := strings.Cut(strings.TrimSpace(line), ":")
		at := slices.IndexFunc(doctor.Table, func(d *doctor.Source) bool { return d.Name == "prometheus: "+source })
		query := doctor.Written(doctor.Table[at].Query, "")
		if answers[query] = slices.Grow(answers[query], 1); sample == "" {
			continue
		}
		labels, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(sample)
		require.NoError(t, err)
		answers[query] = append(answers[query], promql.Sample{Metric: labels, F: values[0].Value})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/status/runtimeinfo") {
			fmt.Fprint(w, `{"status":"success","data":{"storageRetention":"90d or 1TiB"}}`)
			return
		}
		samples, known := answers[r.FormValue("query")]
		if !known {
			http.Error(w, "query unknown to this fake", http.StatusBadRequest)
			return
		}
		now := time.Now()
		if r.FormValue("latency_offset") != "1ms" {
			now = now.Add(-30 * time.Second)
		}
		answer := promql.Vector{}
		for _, s := range samples {
			if s.T = now.UnixMilli(); s.F > 1e9 { // a moment
				s.F = float64(now.Unix())
			}
			answer = append(answer, s)
		}
		serveAnswer(w, answer, nil)
	})
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return raw
}
