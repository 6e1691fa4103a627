package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

// The help prints the program's own flags first, and those of every API server last. A subcommand has its own.
func TestHelpIsInSections(t *testing.T) {
	for _, c := range []struct{ args, has []string }{
		{[]string{"--help"}, []string{"\nUsage:", "\nAvailable Commands:", "\nOwn flags:", "--config string", "\nPrometheus-adapter flags:", "--prometheus-url string", "\nKubernetes API server flags:", "--secure-port int"}},
		{[]string{"rules", "--help"}, []string{"\nFlags:\n", "--config string", "--prometheus-url string"}},
	} {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), c.args, &out, &out))
		at := -1
		for _, want := range c.has {
			next := strings.Index(out.String(), want)
			if next <= at {
				t.Fatalf("%v: %q is not there, or not after what comes before it:\n%s", c.args, want, out.String())
			}
			at = next
		}
	}
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string { return writeFile(t, name, []byte(text)) }
	good := write("good.yaml", "prometheus: {url: 'http://127.0.0.1:9090'}\n")
	bad := write("bad.yaml", "prometheus: {url: ''}\ninterval: -1s\n")
	odd := write("odd.yaml", "promethus: {}\n")
	rules := write("rules.yaml", "prometheus: {url: 'http://x'}\nrules:\n- {name: a, sujbect: x}\n- {name: b, subject: target, sources: [{metric: m}], perPod: sum, perWorkload: often}\n")
	theirs := write("theirs.yaml", "rules:\n- seriesQuery: 'a{b=\"c\"}'\n  resources: {overrides: {namespace: {resource: namespace}}}\n  metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'\n")
	broken := write("broken.yaml", "rules:\n- seriesQuery: 'a'\n  resources: {template: '<<'}\n  metricsQuery: 'x'\n")
	cases := []struct {
		args []string
		out  string
		errs []string
	}{
		{[]string{"--version"}, "gpuscale-adapter version ", nil},
		{[]string{"--help"}, "Serve metrics from Prometheus", nil},
		{[]string{"--check", "--config", good}, good + " is valid\n", nil},
		{[]string{"--check", "--config", bad}, "", []string{"bad.yaml:1: prometheus.url: is required", "bad.yaml:2: interval: must be positive"}},
		{[]string{"--check", "--config", odd}, "", []string{"odd.yaml:1", `unknown field "promethus"`}},
		{[]string{"--check", "--config", rules}, "", []string{"rules.yaml:3: rules[0].sujbect: unknown field", "rules.yaml:4: rules[1].perWorkload: "}},
		{[]string{"--check"}, "", []string{"--config is required"}},
		{[]string{"--config", dir + "/none.yaml"}, "", []string{"reading configuration", "none.yaml"}},
		{[]string{"--no-such-flag"}, "", []string{"no-such-flag"}},
		{[]string{"no-such-command"}, "", []string{"no-such-command"}},
		{[]string{"--config", good, "--log-level", "loud"}, "", []string{"log-level"}},
		{[]string{"--config", good}, "", []string{"no cluster is configured: give --kubeconfig (not running in a pod)"}},
		{[]string{"--config", good, "--kubeconfig", dir + "/none"}, "", []string{dir + "/none"}},
		{[]string{"rules", "--config", good}, "gpu_busy", nil},
		{[]string{"rules", "--config", theirs, "--prometheus-url=http://x"}, "gpu_busy", nil},
		{[]string{"rules", "--config", bad}, "", []string{"bad.yaml:1"}},
		{[]string{"rules", "--config", rules}, "", []string{"rules.yaml:3", "rules.yaml:4"}},

		// The arguments of prometheus-adapter's Deployments.
		{[]string{"--check", "--config", theirs}, "", []string{"prometheus.url: is required"}},
		{[]string{
			"/adapter", "--check", "--config=" + theirs, "--prometheus-url=https://prometheus:9090/", "--metrics-relist-interval=1m", "--metrics-max-age=2m",
			"--prometheus-ca-file=/ca", "--prometheus-token-file=/token", "--prometheus-header=X-Scope-OrgID=a=b", "--prometheus-verb=POST",
			"--prometheus-client-tls-cert-file=/crt", "--prometheus-client-tls-key-file=/key", "--prometheus-auth-incluster", "--disable-http2",
			"--logtostderr=true", "-v=6", "--v=4", "--cert-dir=/tmp", "--secure-port=6443", "--lister-kubeconfig=/x", "--tls-cipher-suites=TLS_AES_128_GCM_SHA256",
		}, theirs + " is valid\n", nil},
		{[]string{"--check", "--config", broken, "--prometheus-url=http://x"}, "", []string{"broken.yaml:3"}},
		{[]string{"--check", "--config", theirs, "--prometheus-url=http://x", "--prometheus-verb=PUT"}, "", []string{"prometheus.method:"}},
		{[]string{"--check", "--config", theirs, "--prometheus-url=http://x", "--prometheus-header=hush"}, "", []string{"--prometheus-header"}},
		{[]string{"--check", "--config", theirs, "--prometheus-auth-config=/k"}, "", []string{"--prometheus-auth-config is not supported", "--prometheus-token-file"}},
	}
	for _, c := range cases {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), c.args, &stdout, &stderr)
		if (err != nil) != (c.errs != nil) || !strings.HasPrefix(stdout.String(), c.out) || c.out == "" && stdout.Len() > 0 {
			t.Errorf("%v: %.200q, %v", c.args, stdout.String(), err)
		}
		for _, want := range c.errs {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v lacks %q", c.args, err, want)
			}
		}
	}
}

// A header may be given twice. With Authorization, or in the URL, it has a password, for which prometheus-adapter has
// no flag (its issue 572). It precedes the token, as there.
func TestHeadersOfPrometheusAdapter(t *testing.T) {
	server := promtest.New(t)
	for i, c := range []struct {
		flag                []string
		user                string
		authorization, team string
	}{
		{[]string{"X-Scope-OrgID=a", "x-scope-orgid=b=c"}, "", "", "a,b=c"},
		{[]string{"Authorization=Basic bWU6YTpi"}, "", "Basic bWU6YTpi", ""},
		{nil, "me:a%3Ab@", "Basic bWU6YTpi", ""},
		{[]string{"authorization=Bearer hush", "X-Scope-OrgID=a"}, "me:a@", "Bearer hush", "a"},
	} {
		p := paFlags{url: strings.Replace(server.URL, "//", "//"+c.user, 1), headers: c.flag}
		if c.authorization != "" {
			p.tokenFile = "/no/such/token"
		}
		overlay, err := p.overlay()
		require.NoError(t, err)
		cfg := config.Default()
		overlay(&cfg)
		client, err := prom.New(cfg.Prometheus.Config)
		if err == nil {
			_, err = client.Query(t.Context(), "up", time.Time{})
		}
		if err != nil {
			t.Fatalf("%q: %v", c.flag, err)
		}
		h := server.Queries()[i].Header
		if got := strings.Join(h.Values("X-Scope-OrgID"), ","); got != c.team || h.Get("Authorization") != c.authorization {
			t.Errorf("%q: %v", c.flag, h)
		}
	}
	if _, err := (&paFlags{headers: []string{"Authorization=Basic hush!"}}).overlay(); err == nil {
		t.Error("what is no base64 is taken")
	}
}

func TestBuildInfoIsAsTheCatalogueSays(t *testing.T) {
	reg := prometheus.NewRegistry()
	registerBuildInfo(reg)
	if n, err := testutil.GatherAndCount(reg, metric.AdapterBuildInfo.Name); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestWrongLines: a mistake in the command line has an exit code of its own, one in a file has not.
func TestWrongLines(t *testing.T) {
	for line, want := range map[string]bool{"--no-such-flag": true, "simulat": true, "explain hpa": true, "explain hpa a/b": true, "simulate hpa a/b --since soon": true, "--check --config none.yaml": false} {
		var out bytes.Buffer
		if err := run(t.Context(), strings.Fields(line), &out, &out); err == nil || command.IsUsage(err) != want {
			t.Errorf("%s: %v, of the line: %v", line, err, command.IsUsage(err))
		}
	}
}
