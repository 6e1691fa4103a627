package world

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/sandbox/build"
)

func TestPrometheusGetsTheRulesOfTheCheckout(t *testing.T) {
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := copyRules(root, to); err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(to, rulesFolder, "*.yaml"))
	var all strings.Builder
	for _, f := range files {
		text, _ := os.ReadFile(f)
		all.Write(text)
	}
	if !strings.Contains(all.String(), "- record: ") || !strings.Contains(all.String(), "- alert: ") {
		t.Errorf("no recording rule or no alert in %v", files)
	}
	if !strings.Contains(string(prometheusConfig("")), "rule_files: ["+rulesFolder+"/*.yaml]") {
		t.Error("Prometheus' configuration does not name them")
	}
}

func TestMissingRulesAreReported(t *testing.T) {
	if err := copyRules(t.TempDir(), t.TempDir()); err == nil || !strings.Contains(err.Error(), "files/recording.yaml") {
		t.Errorf("got %v", err)
	}
}
