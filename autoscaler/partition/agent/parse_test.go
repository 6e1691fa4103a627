package agent

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestConfig(t *testing.T) {
	text, err := yaml.Marshal(DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseConfig(text); err != nil {
		t.Errorf("the default: %v", err)
	}
	for text, want := range map[string]string{
		"callTimeout: 0s": "callTimeout: 0s: want 1s", "exporter: {by: mail}": `exporter.by: "mail"`, "kubeletSocket: ''": "kubeletSocket",
		"devicePlugin: {selector: ''}": "devicePlugin.selector", "devicePlugin: {selector: 'a in ('}": "devicePlugin.selector",
		"fixedDrivers: [new]": "fixedDrivers[0]", "freese: true": "unknown field", "exporter: {socket: ''}": "exporter.socket",
		"devicePlugin: {namespace: ''}": "devicePlugin.namespace",
	} {
		if _, err := ParseConfig([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestFixedDrivers(t *testing.T) {
	for driver, want := range map[string]bool{
		"580.159.03": true, "580.159.02": false, "580.160": true, "535.309.01": true, "535.308.99": false, "570.211.01": false,
		"595.71.05": true, "600.1.1": true, "590.48.01": false, "": false, "580.x": false,
	} {
		if err := fixed(driver, nil); (err == nil) != want {
			t.Errorf("%q: %v, want fixed %v", driver, err, want)
		}
	}
	if err := fixed("570.211.02", []string{"570.211.02"}); err != nil {
		t.Errorf("named: %v", err)
	}
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("freeze: true\nfixedDrivers: [570.240.01]\nexporter: {by: none}"))
	f.Add([]byte("period: 10s"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		again, err := yaml.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseConfig(again); err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, again)
		}
	})
}

func FuzzReadReply(f *testing.F) {
	f.Add([]byte(`{"ok":true}`))
	f.Add([]byte(`{"ok":false,"error":"x"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if readReply(line) == nil && !strings.Contains(strings.ToLower(string(line)), "true") {
			t.Errorf("%q counts as done", line)
		}
	})
}
