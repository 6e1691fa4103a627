package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
)

// alerts writes to a file or to standard output, with the values applied.
func TestAlerts(t *testing.T) {
	dir := t.TempDir()
	values, out := filepath.Join(dir, "values.yaml"), filepath.Join(dir, "alerts.yaml")
	if err := os.WriteFile(values, []byte("programs: [exporter]\nalerts: {GPUUnhealthy: {severity: info}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), io.Discard, "alerts", "--values", values, "--out", out); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(written), "alert: GpuscaleAdapterDown") || strings.Contains(string(written), "critical\"\n    annotations:\n      summary: \"A GPU of") {
		t.Errorf("the values are not applied:\n%s", written)
	}
	var page bytes.Buffer
	if err := run(t.Context(), &page, "alerts"); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "- alert: "); n != len(alerts.All()) {
		t.Errorf("%d alerts, want %d", n, len(alerts.All()))
	}
	for _, c := range []struct {
		text string
		args []string
		has  string
	}{
		{"alerts: {NoSuch: {enabled: true}}", []string{"--values", values}, "values.yaml: alerts.NoSuch"},
		{"", []string{"--values", filepath.Join(dir, "none")}, "--values"},
		{"", []string{"--out", filepath.Join(dir, "none", "a.yaml")}, "--out"},
	} {
		if err := os.WriteFile(values, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), io.Discard, append([]string{"alerts"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%v: %v, want something about %s", c.args, err, c.has)
		}
	}
}
