package config

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

const backends = `
backends:
- name: default
  url: http://prometheus:9090
- name: amazon
  url: https://aps-workspaces.eu-west-1.amazonaws.com/workspaces/ws-1
  sigv4: {region: eu-west-1, role_arn: 'arn:aws:iam::1:role/r'}
- name: thanos
  url: http://thanos:9090
  method: GET
  timeout: 20s
  parameters: {partial_response: "false", dedup: "true"}
  http: {http_headers: {THANOS-TENANT: {files: [/etc/tenant]}}}
rules:
- name: batch_backlog
  backend: thanos
  subject: namespace
  sources: [{metric: batch_queue_length}]
  perPod: sum
  perWorkload: sum
`

func TestBackends(t *testing.T) {
	f, err := Read("c.yaml", []byte(backends))
	if err != nil || f.Err() != nil {
		t.Fatal(err)
	}
	servers := f.Config.Servers()
	if len(servers) != 3 || servers["amazon"].SigV4.Region != "eu-west-1" || servers["amazon"].Timeout != 10*time.Second {
		t.Errorf("%+v", servers)
	}
	if th := servers["thanos"]; th.Timeout != 20*time.Second || th.Method != "GET" || th.Parameters["dedup"] != "true" || th.HTTP.HTTPHeaders.Headers["THANOS-TENANT"].Files == nil {
		t.Errorf("%+v", th)
	}
	rules := f.Signals()
	if last := rules[len(rules)-1]; last.Name != "batch_backlog" || last.Backend != "thanos" || rules[0].Backend != "" {
		t.Errorf("%+v", last)
	}
}

const queries = `
prometheus: {url: 'https://thanos-querier.openshift-monitoring.svc:9092', namespaceParameter: namespace}
rules:
- name: jobs_per_worker
  query: sum by (namespace, pod) (rate(jobs_done_total{namespace=~"$namespaces"}[2m]))
- name: backlog
  query: sum by (k8s_namespace_name) (queue_length{k8s_namespace_name=~"$namespaces"})
  labels: {namespace: k8s_namespace_name}
`

func TestRulesThatAreQueries(t *testing.T) {
	f, err := Read("c.yaml", []byte(queries))
	if err != nil || f.Err() != nil {
		t.Fatal(err, f.Err())
	}
	if got := f.Config.NamespaceParameter("default"); got != "namespace" {
		t.Errorf("parameter %q", got)
	}
	rules := f.Signals()
	jobs, backlog := rules[len(rules)-2], rules[len(rules)-1]
	if jobs.Subject != signal.Target || jobs.PerPod != signal.Sum || jobs.Sources[0].Metric != "jobs_done_total" {
		t.Errorf("%+v", jobs)
	}
	if backlog.Subject != signal.Namespace || !strings.Contains(backlog.Query("shop"), `queue_length{k8s_namespace_name="shop"}`) {
		t.Errorf("%+v: %s", backlog, backlog.Query("shop"))
	}
	f, err = Read("c.yaml", []byte("prometheus: {url: http://x}\nrules:\n- {name: a, query: 'sum by (pod) (x)', namespaces: [shop]}"))
	if err != nil || f.Err() != nil {
		t.Fatal(err, f.Err())
	}
	rules = f.Signals()
	if r := rules[len(rules)-1]; r.Subject != signal.Namespace || !strings.Contains(r.Query("shop"), `sum by (pod) (x)), "namespace", "shop"`) {
		t.Errorf("%+v: %s", r, r.Query("shop"))
	}
	refuses(t, "c.yaml", map[string][]string{
		"prometheus: {url: http://x}\nrules:\n- name: a\n  query: sum(x":                                            {"c.yaml:4: rules[0].query: ", "parse error"},
		"prometheus: {url: http://x}\nrules:\n- name: a\n  query: sum(x)":                                           {"c.yaml:4: rules[0].query: no selector has namespace"},
		"prometheus: {url: http://x}\nrules:\n- name: a\n  like: queue_depth\n  query: x":                           {"c.yaml:5: rules[0].query: stands for itself"},
		"prometheus: {url: http://x}\nrules:\n- name: a\n  labels: {pods: x}\n  query: x{namespace=~'$namespaces'}": {`c.yaml:4: rules[0].labels.pods: unknown field`},
		"prometheus:\n  url: http://x\n  parameters: {namespace: a}\n  namespaceParameter: namespace":               {"c.yaml:4: prometheus.namespaceParameter: "},
	})
}

// A sentence names the line that has to be changed.
func TestProblemsHaveTheirLine(t *testing.T) {
	refuses(t, "c.yaml", map[string][]string{
		"prometheus:\n  url: ftp://x\n  timeout: 0s":                                   {"c.yaml:2: prometheus.url: scheme", "c.yaml:3: prometheus.timeout: must be positive"},
		"prometheus:\n  url: http://x\nfirstWait: 1h\nconcurrency: 0\nidleAfter: soon": {"c.yaml:5: idleAfter: "},
		"prometheus:\n  url: http://x\n  ulr: http://x":                                {`c.yaml:3: prometheus.ulr: unknown field "ulr"`},
		"backends:\n- name: default\n  url: http://x\n- name: Default\n  url: http://y\n- name: default\n  url: ''": {
			`c.yaml:4: backends[1].name: "Default" does not match`, `c.yaml:6: backends[2].name: "default" is declared twice`, "c.yaml:7: backends[2].url: is required",
		},
		"prometheus: {url: http://x}\nbackends:\n- name: default\n  url: http://x": {"c.yaml:3: backends[0].name: prometheus is the backend"},
		"backends:\n- name: only\n  url: http://x":                                 {`c.yaml:1: backends: one must be called "default"`},
		"backends:\n- name: default\n  url: http://x\n  sigv4:\n    regoin: x":     {`c.yaml:4: backends[0].sigv4: `, `field regoin not found`},
		"backends: 5": {"c.yaml:1: backends: is no list"},
		"prometheus: {url: http://x}\nrules:\n- name: a\n  subject: target\n  sources:\n  - metric: m\n  perPod: sum\n  perWorkload: sum\n  backend: nowhere": {
			`c.yaml:9: rules[0].backend: no backend is called "nowhere"; there are: default`,
		},
		"prometheus: {url: http://x}\nrules:\n- name: a\n  subject: target\n  sources:\n  - metric: m\n    matchers:\n    - label: x\n      op: '~'\n  perPod: sum\n  perWorkload: often": {
			`c.yaml:9: rules[0].sources[0].matchers[0].op: "~"`,
		},
		"prometheus: {url: http://x}\nrules:\n- name: a\n  subject: target\n  sources:\n  - metric: m\n    mtchers: []\n  window: [1]": {
			`c.yaml:7: rules[0].sources[0].mtchers: unknown field`, "c.yaml:8: rules[0].window: ",
		},
		// A wrong type is reported in YAML's terms.
		"prometheus: {url: 'http://x', timeout: 5}":          {"c.yaml:1: prometheus: timeout: is a number, not text or a duration such as 5s"},
		"prometheus: {url: 'http://x'}\nconcurrency: [hush]": {"c.yaml:2: concurrency: is a list, not a number"},
	})
}

const oneBad = `
prometheus: {url: http://x}
rules:
- name: good
  subject: target
  sources: [{metric: m}]
  perPod: sum
  perWorkload: sum
- name: gpu_busy
  subjct: exported
- name: good
  subject: target
  sources: [{metric: n}]
  perPod: sum
  perWorkload: sum
- 7
`

func TestWrongTypesDoNotShowSecrets(t *testing.T) {
	_, err := Read("c.yaml", []byte("prometheus: {url: 'http://x', parameters: hush}"))
	if err == nil || !strings.Contains(err.Error(), "c.yaml:1: prometheus: parameters: is text, not a mapping") || strings.Contains(err.Error(), "hush") {
		t.Error(err)
	}
}

func TestABadRuleCostsNoOther(t *testing.T) {
	f, err := Read("c.yaml", []byte(oneBad))
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{}
	for _, r := range f.Signals() {
		named[r.Name] = r.Sources[0].Metric
	}
	if named["good"] != "m" || len(named) != len(signal.Builtin(time.Minute)) {
		t.Errorf("%v: good, and the built-in ones without the one that was to be replaced", named)
	}
	if _, there := named["gpu_busy"]; there {
		t.Error("the built-in rule replaces an invalid rule of the same name")
	}
	for _, want := range []string{`c.yaml:10: rules[1].subjct: unknown field`, `c.yaml:11: rules[2].name: "good" is declared twice: see line 4`, "c.yaml:16: rules[3]: is no mapping"} {
		if err := f.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestPrometheusAdapterFileIsRecognized(t *testing.T) {
	flags := func(c *Config) { c.Prometheus.URL = "http://flag" }
	for _, text := range []string{"rules: [{seriesQuery: a}]", "externalRules: []", "resourceRules: {}"} {
		f, err := Read("theirs.yaml", []byte(text), flags)
		if err != nil || f.Config.PrometheusAdapter.ConfigFile != "theirs.yaml" || f.Config.Servers()["default"].URL != "http://flag" {
			t.Errorf("%s: %+v, %v", text, f, err)
		}
		if err == nil && len(f.Rules) != len(signal.Builtin(time.Minute)) {
			t.Errorf("%d rules: the built-in ones stand", len(f.Rules))
		}
	}
	if f, err := Read("ours.yaml", []byte(backends)); err != nil || f.Config.PrometheusAdapter.Enabled() {
		t.Errorf("ours taken for theirs: %v", err)
	}
	mixed := "interval: 1s\nrules: [{seriesQuery: a}]"
	if _, err := Read("c.yaml", []byte(mixed), flags); err == nil || !strings.Contains(err.Error(), "c.yaml:1: interval: the rules here are in prometheus-adapter's format") {
		t.Errorf("%v", err)
	}
	bad := "prometheus: {url: http://x}\nprometheusAdapter:\n  configFile: x\n  relistInterval: -1s\n  backend: nowhere"
	if _, err := Read("c.yaml", []byte(bad)); err == nil || !strings.Contains(err.Error(), "c.yaml:4: prometheusAdapter.relistInterval:") || !strings.Contains(err.Error(), "c.yaml:5: prometheusAdapter.backend: no backend") {
		t.Errorf("%v", err)
	}
}

// Files that are often mistaken for a configuration get their own error.
func TestSimilarFilesAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n    rules: []":                         "c.yaml:2: kind: this is a Kubernetes manifest of a ConfigMap; a configuration is the text under its data",
		"prometheus: {url: http://x, port: 9090}\nrules:\n  default: false\n  custom: [{seriesQuery: a}]": "c.yaml:3: rules.default: these are values of prometheus-adapter's chart",
		"rules:\n  external: [{seriesQuery: a}]":                                                          "c.yaml:2: rules.external: these are values of prometheus-adapter's chart",
		"rules: [{seriesQuery: a}]":                                                                       "c.yaml: prometheus.url: is required; with a prometheus-adapter file, set --prometheus-url",
	} {
		_, err := Read("c.yaml", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngives %v\nwant only %s…", text, err, want)
		}
	}
}
