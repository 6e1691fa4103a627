package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
)

func TestPrometheusAdapterIsBuiltOnce(t *testing.T) {
	o, _ := checkout(t)
	module := filepath.Join(o.Root, prometheusAdapter.module)
	write(t, filepath.Join(module, "go.mod"), "module x\n")
	calls := filepath.Join(t.TempDir(), "calls")
	fakeGo(t, goodGo(calls))
	var paths []string
	for range 2 {
		path, err := PrometheusAdapter(t.Context(), o)
		require.NoError(t, err)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			t.Fatalf("%s is no program: %v", path, err)
		}
		paths = append(paths, path)
	}
	built, err := os.ReadFile(calls)
	if err != nil || strings.Count(string(built), "build") != 1 || paths[0] != paths[1] {
		t.Errorf("built %q, as %v: %v", built, paths, err)
	}
}

// TestThePinnedPrometheusAdapter: documents and tests name its version.
func TestThePinnedPrometheusAdapter(t *testing.T) {
	root, err := FindRoot()
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(root, prometheusAdapter.module, "go.mod"))
	require.NoError(t, err)
	if want := "require sigs.k8s.io/prometheus-adapter v0.12.0\n"; !strings.Contains(string(mod), want) {
		t.Errorf("%s/go.mod does not contain %q", prometheusAdapter.module, want)
	}
	if strings.Contains(string(mod), "\nreplace ") {
		t.Error("it is compared as it is published: no replace")
	}
}
