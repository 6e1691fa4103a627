package build

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// kubernetesVersion is the version in sandbox/controlplane/go.mod; a test compares them. kubectl does not
// work with a server that reports no version.
const kubernetesVersion = "v1.37.1"

// target is something that can be compiled.
type target struct {
	name   string     // of its folder in the cache
	title  string     // what messages call it
	module string     // folder of its Go module below the root
	source *Neighbour // another project's module, in place of module
	args   []string   // of go build, before -o
	pkgs   []string
	output string // file or, with a trailing slash, folder
	links  map[string]string
	cgo    bool // links C
	// prepared by `make prepare`.
	prepared bool
}

var controlPlane = target{
	name:   "controlplane",
	title:  "the control plane",
	module: "sandbox/controlplane",
	args:   []string{"-trimpath", "-ldflags", versionFlags()},
	pkgs:   []string{"."},
	output: "controlplane",
	links: map[string]string{
		"etcd":                    "controlplane",
		"kube-apiserver":          "controlplane",
		"kube-controller-manager": "controlplane",
		"kube-scheduler":          "controlplane",
		"kwok":                    "controlplane",
		"kubectl":                 "controlplane",
	},
	prepared: true,
}

// prometheus is built without the service discovery of twenty clouds. File and HTTP discovery are always
// included.
var prometheus = target{
	name:   "prometheus",
	title:  "Prometheus",
	module: "sandbox/controlplane/prometheus",
	args:   []string{"-trimpath", "-tags", "remove_all_sd", "-ldflags", "-s -w -X github.com/prometheus/common/version.Version=3.15.0"},
	pkgs: []string{
		"github.com/prometheus/prometheus/cmd/prometheus",
		"github.com/prometheus/prometheus/cmd/promtool",
	},
	output:   "./",
	prepared: true,
}

// prometheusAdapter is compared with our adapter. The nested module's go.mod has its version.
var prometheusAdapter = target{
	name:   "prometheus-adapter",
	title:  "prometheus-adapter",
	module: "sandbox/controlplane/prometheus-adapter",
	args:   []string{"-trimpath", "-ldflags", "-s -w"},
	pkgs:   []string{"sigs.k8s.io/prometheus-adapter/cmd/adapter"},
	output: "prometheus-adapter",
}

// programs are our own programs, which a sandbox runs as processes. The exporter links the C part of go-dcgm.
var programs = target{
	name:   "programs",
	title:  "gpuscale's programs",
	args:   []string{"-ldflags", "-s -w"},
	pkgs:   []string{"./exporter", "./adapter", "./autoscaler", "./agent", "./report", "./dashboards"},
	output: "./",
	links: map[string]string{
		"gpuscale-exporter":   "exporter",
		"gpuscale-adapter":    "adapter",
		"gpuscale-autoscaler": "autoscaler",
		"gpuscale-agent":      "agent",
		"gpuscale-report":     "report",
		"gpuscale-dashboards": "dashboards",
	},
	cgo:      true,
	prepared: true,
}

func versionFlags() string {
	flags := "-s -w"
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags += fmt.Sprintf(" -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=1 -X %[1]s.gitMinor=37 -X %[1]s.gitTreeState=clean",
			pkg, kubernetesVersion)
	}
	return flags
}

// complete reports whether dir contains all files of the target.
func (t target) complete(dir string) bool {
	files := slices.Collect(maps.Keys(t.links))
	if t.output != "./" {
		files = append(files, t.output)
	} else {
		for _, p := range t.pkgs {
			files = append(files, path.Base(p))
		}
	}
	return !slices.ContainsFunc(files, func(f string) bool {
		info, err := os.Stat(filepath.Join(dir, f))
		return err != nil || info.IsDir()
	})
}
