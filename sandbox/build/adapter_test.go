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
