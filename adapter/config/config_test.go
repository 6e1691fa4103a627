package config

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/adapter/signal"
)

const good = `
prometheus:
  url: https://mimir.example/prometheus
  http:
    authorization: {credentials_file: /var/run/token}
    http_headers: {X-Scope-OrgID: {values: [team]}}
  timeout: 2s
interval: 1s
maxAge: 15s
rules:
- name: batch_backlog
  subject: namespace
  sources:
  - metric: batch_queue_length
    matchers: [{label: job, op: "=~", value: 'a|b"}'}]
  perPod: sum
  perWorkload: sum
  maxAge: 1m
- name: gpu_busy
  subject: exported
  sources:
  - {metric: DCGM_FI_DEV_GPU_UTIL, scale: 0.01}
  identity: [UUID, GPU_I_ID]
  perPod: average
  perWorkload: average
  maximum: 1
`

func TestGoodFile(t *testing.T) {
	f, err := Read("good.yaml", []byte(good))
	if err != nil || f.Err() != nil {
		t.Fatal(err, f.Err())
	}
	c := f.Config
	if got := c.Servers()["default"]; got.Timeout != 2*time.Second || got.HTTP.HTTPHeaders.Headers["X-Scope-OrgID"].Values[0] != "team" {
		t.Errorf("client %+v", got)
	}
	if got := c.Cache(); got.Interval != time.Second || got.IdleAfter != 10*time.Minute {
		t.Errorf("cache %+v", got)
	}
	rules := f.Signals()
	if len(rules) != len(signal.Builtin(time.Second))+1 {
		t.Fatalf("%d rules, %v", len(rules), err)
	}
	for _, r := range rules {
		switch r.Name {
		case "gpu_busy":
			if len(r.Sources) != 1 || r.Sources[0].Scale != .01 || r.MaxAge != 15*time.Second || r.Duplicates != signal.Max {
				t.Errorf("own rule in the built-in one's place: %+v", r)
			}
		case "batch_backlog":
			if r.MaxAge != time.Minute {
				t.Errorf("%+v", r)
			}
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(r.Query()); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestBadFiles(t *testing.T) {
	refuses(t, "bad.yaml", map[string][]string{
		``:                                      {"prometheus.url: is required"},
		`promethus: {}`:                         {`unknown field "promethus"`},
		"{":                                     {"bad.yaml: parsing configuration"},
		"[]":                                    {"bad.yaml:1: parsing configuration", "no mapping"},
		"interval: 1s\n---\nx: 1":               {"bad.yaml:2: parsing configuration: more than one document"},
		"maxAge: 1m\ninterval: 5":               {"bad.yaml:2: interval: "},
		"rules: 5\nprometheus: {url: http://x}": {"bad.yaml:1: rules: is no list"},
		"interval: 1s\ninterval: 2s":            {"bad.yaml:2: interval: is already set"},
		`{prometheus: {url: ftp://x}}`:          {"prometheus.url: scheme"},
		`{prometheus: {url: http://x}, interval: 1m, maxAge: 45s}`:      {"maxAge: must be longer than interval"},
		`{prometheus: {url: http://x}, concurrency: 0, firstWait: -1s}`: {"concurrency:", "firstWait:"},
		`{prometheus: {url: http://x}, rules: [{name: a}, {name: b, sources: [{metric: m, scale: 0, matchers: [{label: x, op: "~"}]}]}]}`: {
			"rules[0].subject:", "rules[0].sources:", "rules[0].perPod:", "rules[1].sources[0].scale:", "rules[1].sources[0].matchers[0].op:",
		},
		`{prometheus: {url: http://x}, rules: [
			{name: a, subject: target, sources: [{metric: m}], perPod: sum, perWorkload: sum},
			{name: a, subject: target, sources: [{metric: m}], perPod: sum, perWorkload: sum}]}`: {"rules[1].name:"},
		`{prometheus: {url: http://x}, rules: [{name: a, subject: target, sources: [{metric: m, matchers: [{label: x, op: "=~", value: "("}]}], perPod: sum, perWorkload: sum}]}`: {"rules[0].sources[0].matchers[0]"},
	})
}

// refuses reads each text and looks for all that its problems should say.
func refuses(t *testing.T, file string, cases map[string][]string) {
	t.Helper()
	for text, wants := range cases {
		f, err := Read(file, []byte(text))
		if err == nil {
			err = f.Err()
		}
		for _, want := range wants {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s\ngives %v\nwhich lacks %q", text, err, want)
			}
		}
	}
}

// FuzzParse: a file is either refused with a reason, or gives rules whose
// queries Prometheus can parse.
func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(`{prometheus: {url: http://x}, rules: [{name: a, subject: target, sources: [{metric: 'x"}', over: y}], perPod: sum, perWorkload: sum}]}`)
	f.Add(`rules: [{maximum: .nan}]`)
	for _, seed := range []string{backends, "externalRules: []", "{rules: [{seriesQuery: x}], interval: 1s}", "a: &a [*a]", "<<: {}", "rules: [[], 1, null]", "---\n---"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read("fuzz.yaml", []byte(text))
		if err != nil {
			return
		}
		for _, r := range file.Signals() {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(r.Query()); err != nil {
				t.Errorf("%s: %v", r.Query(), err)
			}
		}
		for _, r := range file.Rules {
			for _, p := range r.Problems {
				if p.File == "" || p.Line == 0 || !strings.HasPrefix(p.Path, "rules[") {
					t.Errorf("a rule's problem without its place: %v", p)
				}
			}
		}
	})
}
