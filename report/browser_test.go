package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuscale/gpuscale/report/render"
)

// TestBrowser checks the pages in Chromium with axe-core. `make report-browser`
// installs what it needs.
func TestBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no browser is started")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed; see `make report-browser`")
	}
	if _, err := os.Stat("browser/node_modules/axe-core"); err != nil {
		t.Skip("report/browser has no node_modules: run `make report-browser` once")
	}
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "/usr/bin/chromium"
	}
	if _, err := os.Stat(chromium); err != nil {
		t.Skipf("there is no browser at %s; $CHROMIUM may name another", chromium)
	}
	for name, r := range map[string]func() ([]byte, error){
		"alone": func() ([]byte, error) {
			var b bytes.Buffer
			err := render.HTML(&b, alone(t))
			return b.Bytes(), err
		},
		"story": func() ([]byte, error) { return os.ReadFile("testdata/golden/report.html") },
	} {
		raw, err := r()
		if err != nil {
			t.Fatal(err)
		}
		page := filepath.Join(t.TempDir(), name+".html")
		if err := os.WriteFile(page, raw, 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), node, "browser/check.mjs", page)
		cmd.Env = append(os.Environ(), "CHROMIUM="+chromium)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
