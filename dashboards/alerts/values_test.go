package alerts_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
)

func parseValues(t *testing.T, text string) alerts.Values {
	t.Helper()
	v, err := alerts.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Overrides change what they name, and nothing else.
func TestValues(t *testing.T) {
	rules := render(t, parseValues(t, `
programs: [exporter, autoscaler]
jobs: {exporter: gpu-metrics}
namespaces: [gpu-a, gpu-b]
runbooks: https://wiki.example/gpu/
labels: {team: platform}
alerts:
  GPUHeldIdle: {enabled: false}
  GPUThrottled: {threshold: 0.5, for: 1h, severity: info}
  GPUUnhealthy: {for: 0s}
`))
	before := render(t, alerts.Values{})
	if len(rules) != len(before)-3 { // the adapter's two and GPUHeldIdle
		t.Errorf("%d alerts of %d", len(rules), len(before))
	}
	for _, r := range rules {
		i := slices.IndexFunc(alerts.All(), func(a alerts.Alert) bool { return a.Name == r.Alert })
		old := alerts.All()[i]
		if old.Program == "adapter" || r.Alert == "GPUHeldIdle" {
			t.Errorf("%s is there", r.Alert)
		}
		if r.Labels["team"] != "platform" || r.Annotations["runbook_url"] != "https://wiki.example/gpu/"+r.Alert+".md" {
			t.Errorf("%s: %v %v", r.Alert, r.Labels, r.Annotations)
		}
		if strings.Contains(r.Expr, `job="gpuscale-exporter"`) {
			t.Errorf("%s: %s", r.Alert, r.Expr)
		}
		switch r.Alert {
		case "GPUThrottled":
			if !strings.HasSuffix(r.Expr, "> 0.5") || r.For.String() != "1h" || r.Labels["severity"] != "info" {
				t.Errorf("%+v", r)
			}
		case "GPUUnhealthy":
			if r.For != 0 {
				t.Errorf("%+v", r)
			}
		case "GpuscaleExporterDown":
			if !strings.HasPrefix(r.Expr, `min by (cluster, instance) (up{namespace=~"gpu-a|gpu-b",job="gpu-metrics"}) == 0`) || r.For.String() != "10m" || r.Labels["severity"] != "warning" {
				t.Errorf("%+v", r)
			}
		}
	}
}

// A large number is text that Prometheus reads.
func TestThresholdIsText(t *testing.T) {
	for _, r := range render(t, parseValues(t, "alerts: {GPUHeldIdle: {threshold: 1.5e9}}")) {
		if r.Alert == "GPUHeldIdle" && !strings.HasSuffix(r.Expr, "> 1500000000") {
			t.Error(r.Expr)
		}
	}
}

func TestProblemsAreReported(t *testing.T) {
	for text, has := range map[string][]string{
		"alerts: {NoSuch: {enabled: false}}":                      {"alerts.NoSuch: there is no such alert"},
		"alerts: {GPUUnhealthy: {threshold: 3}}":                  {"alerts.GPUUnhealthy.threshold: this alert has none"},
		"alerts: {GPUThrottled: {threshold: 0}}":                  {"alerts.GPUThrottled.threshold: 0: want"},
		"alerts: {GPUThrottled: {threshold: -1, severity: page}}": {".threshold: -1: want", `.severity: "page": want`},
		"alerts: {GPUThrottled: {for: 30d}}":                      {"alerts.GPUThrottled.for: 30d: want 0s to 2w"},
		"alerts: {GPUThrottled: {for: soon}}":                     {"soon"},
		"alerts: {GPUThrottled: {treshold: 1}}":                   {"treshold"},
		"namespaces: ['a\"']":                                     {`namespaces[0]`},
		"programs: [report]":                                      {`programs[0]: "report": want one of`},
		`jobs: {exporter: 'a"} or vector(1) #'}`:                  {"jobs.exporter:"},
		"jobs: {report: x}":                                       {`jobs: "report"`},
		"labels: {severity: x, a-b: y}":                           {`labels: "severity"`, `labels: "a-b"`},
		"labels: {team: '{{ $value }}'}":                          {"labels.team:"},
		"runbooks: https://wiki.example/?page=":                   {"runbooks:"},
		"colour: red":                                             {"colour"},
	} {
		_, err := alerts.Parse([]byte(text))
		for _, want := range has {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", text, err, want)
			}
		}
	}
}

// FuzzParse: whatever is taken gives rules that Prometheus takes.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "programs: [exporter]", "jobs: {exporter: gpu}", "runbooks: /docs", "labels: {team: \"p\\\"x\\u00e4\"}",
		"alerts: {GPUThrottled: {threshold: 0.5, for: 1h, severity: info}}", "alerts: {GPUHeldIdle: {enabled: false}}", "programs: [adapter]\nalerts: {GpuscaleAdapterDown: {enabled: true}}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := alerts.Parse([]byte(text))
		if err != nil {
			return
		}
		file, err := alerts.Render(v)
		if err != nil {
			t.Fatalf("valid values are not rendered: %v", err)
		}
		if _, err := load(file); err != nil {
			t.Fatalf("%v\n%s", err, file)
		}
	})
}
