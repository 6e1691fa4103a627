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
  bearerTokenFile: /var/run/token
  headers: {X-Scope-OrgID: team}
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
  subject: holder
  sources:
  - {metric: DCGM_FI_DEV_GPU_UTIL, scale: 0.01}
  identity: [UUID, GPU_I_ID]
  perPod: average
  perWorkload: average
  maximum: 1
`

func TestGoodFile(t *testing.T) {
	c, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if got := c.Prometheus.Client(); got.Timeout != 2*time.Second || got.Headers["X-Scope-OrgID"] != "team" {
		t.Errorf("client %+v", got)
	}
	if got := c.Cache(); got.Interval != time.Second || got.IdleAfter != 10*time.Minute {
		t.Errorf("cache %+v", got)
	}
	rules, err := c.Signals()
	if err != nil || len(rules) != len(signal.Builtin(time.Second))+1 {
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
	cases := map[string][]string{
		``:                             {"prometheus.url: is required"},
		`promethus: {}`:                {`unknown field "promethus"`},
		`interval: 5`:                  {"parsing configuration"},
		"interval: 1s\ninterval: 2s":   {"already set"},
		`{prometheus: {url: ftp://x}}`: {"prometheus.url: scheme"},
		`{prometheus: {url: http://x}, interval: 1m}`:                   {"maxAge: must be longer than interval"},
		`{prometheus: {url: http://x}, concurrency: 0, firstWait: -1s}`: {"concurrency:", "firstWait:"},
		`{prometheus: {url: http://x}, rules: [{name: a}, {name: b, sources: [{metric: m, scale: 0, matchers: [{label: x, op: "~"}]}]}]}`: {
			"rules[0].subject:", "rules[0].sources:", "rules[0].perPod:", "rules[1].sources[0].scale:", "rules[1].sources[0].matchers[0]: op:",
		},
		`{prometheus: {url: http://x}, rules: [
			{name: a, subject: target, sources: [{metric: m}], perPod: sum, perWorkload: sum},
			{name: a, subject: target, sources: [{metric: m}], perPod: sum, perWorkload: sum}]}`: {"rules[1].name:"},
		`{prometheus: {url: http://x}, rules: [{name: a, subject: target, sources: [{metric: m, matchers: [{label: x, op: "=~", value: "("}]}], perPod: sum, perWorkload: sum}]}`: {"rules[0].sources[0].matchers[0]:"},
	}
	for text, wants := range cases {
		c, err := Parse([]byte(text))
		if err == nil {
			err = c.Validate()
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
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse([]byte(text))
		if err != nil || c.Validate() != nil {
			return
		}
		rules, err := c.Signals()
		if err != nil {
			t.Fatalf("valid, and yet: %v", err)
		}
		for _, r := range rules {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(r.Query()); err != nil {
				t.Errorf("%s: %v", r.Query(), err)
			}
		}
	})
}
