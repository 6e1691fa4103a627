package chart

import (
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

//go:embed testdata/cortex.yaml
var cortexText string

// TestNeighbourCortex: everything that reads Prometheus works with Cortex, a store with many tenants like
// Mimir and Amazon's service. A Prometheus writes to it, its ruler evaluates our rules, and its query
// frontend caches and splits queries. It has no targets.
func TestNeighbourCortex(t *testing.T) {
	x, b := begin(t)
	const tenant = "gpus"
	dir := t.TempDir()
	rules := filepath.Join(dir, "rules")
	x.must(os.MkdirAll(rules, 0o700))
	x.must(os.MkdirAll(filepath.Join(dir, "ruler"), 0o700)) // without it Cortex logs an error
	x.must(os.CopyFS(filepath.Join(rules, tenant), os.DirFS(filepath.Join(b.Cluster.PrometheusDir(), rulesFolder))))
	address := testenv.FreeAddress(t)
	_, http, _ := strings.Cut(address, ":")
	file := filepath.Join(dir, "cortex.yaml")
	x.must(os.WriteFile(file, []byte(strings.NewReplacer("DIR", dir, "HTTP", http, "GRPC", port(t)).Replace(cortexText)), 0o600))
	b.program(t, build.Cortex, "cortex", proc.Spec{Dir: dir, Args: []string{"-config.file=" + file}})

	x.scraping(func(s *scraping) {
		s.noRules = true
		s.write = "[{url: http://" + address + "/api/v1/push, headers: {" + tenantHeader + ": " + tenant + "}}]"
	})
	b.over(t, source{url: "http://" + address + "/prometheus", tenant: tenant})
	b.allWell(t)
}
