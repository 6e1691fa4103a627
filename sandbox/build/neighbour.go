package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Neighbour is a program of another project, that tests run beside ours. It is
// compiled from its own module with the versions of that module's go.mod and go.sum,
// as its makers compile it.
type Neighbour struct {
	Name            string // in the cache and in messages
	Module, Version string
	packages        []string // below the module
	ldflags, tags   string
}

// The neighbours whose programs tests run.
var (
	// Later versions of Alertmanager need their pages compiled by Node.js.
	Alertmanager = Neighbour{Name: "Alertmanager", Module: "github.com/prometheus/alertmanager", Version: "v0.31.1", packages: []string{"cmd/alertmanager"}}
	// ClusterAPI's core: the controllers of Cluster, MachineDeployment, MachineSet, Machine and MachinePool.
	ClusterAPI         = Neighbour{Name: "Cluster API", Module: "sigs.k8s.io/cluster-api", Version: "v1.14.2", packages: []string{"core"}}
	Cortex             = Neighbour{Name: "Cortex", Module: "github.com/cortexproject/cortex", Version: "v1.21.1", packages: []string{"cmd/cortex"}, tags: "netgo slicelabels"}
	Descheduler        = Neighbour{Name: "descheduler", Module: "sigs.k8s.io/descheduler", Version: "v0.35.1", packages: []string{"cmd/descheduler"}}
	JobSet             = Neighbour{Name: "JobSet", Module: "sigs.k8s.io/jobset", Version: "v0.10.1", packages: []string{"."}}
	Karpenter          = Neighbour{Name: "Karpenter", Module: "sigs.k8s.io/karpenter", Version: "v1.14.0", packages: []string{"kwok"}}
	KEDA               = Neighbour{Name: "KEDA", Module: "github.com/kedacore/keda/v2", Version: "v2.21.0", packages: []string{"cmd/operator", "cmd/adapter"}}
	Kueue              = Neighbour{Name: "Kueue", Module: "sigs.k8s.io/kueue", Version: "v0.15.0", packages: []string{"cmd/kueue"}}
	KubeRay            = Neighbour{Name: "KubeRay", Module: "github.com/ray-project/kuberay/ray-operator", Version: "v1.5.1", packages: []string{"."}}
	LeaderWorkerSet    = Neighbour{Name: "LeaderWorkerSet", Module: "sigs.k8s.io/lws", Version: "v0.7.0", packages: []string{"cmd"}}
	MPIOperator        = Neighbour{Name: "MPI Operator", Module: "github.com/kubeflow/mpi-operator", Version: "v0.8.0", packages: []string{"cmd/mpi-operator"}}
	PrometheusOperator = Neighbour{
		Name: "prometheus-operator", Module: "github.com/prometheus-operator/prometheus-operator", Version: "v0.85.0", packages: []string{"cmd/operator"},
	}
	SchedulerPlugins = Neighbour{Name: "scheduler-plugins", Module: "sigs.k8s.io/scheduler-plugins", Version: "v0.33.5", packages: []string{"cmd/scheduler", "cmd/controller"}}
	// Thanos without slicelabels reads Prometheus' labels as what they are not, and panics.
	Thanos           = Neighbour{Name: "Thanos", Module: "github.com/thanos-io/thanos", Version: "v0.42.4", packages: []string{"cmd/thanos"}, tags: "slicelabels"}
	Trainer          = Neighbour{Name: "Trainer", Module: "github.com/kubeflow/trainer/v2", Version: "v2.1.0", packages: []string{"cmd/trainer-controller-manager"}}
	TrainingOperator = Neighbour{Name: "Training Operator", Module: "github.com/kubeflow/training-operator", Version: "v1.9.3", packages: []string{"cmd/training-operator.v1"}}
	VictoriaMetrics  = Neighbour{
		Name: "VictoriaMetrics", Module: "github.com/VictoriaMetrics/VictoriaMetrics", Version: "v1.150.0", packages: []string{"app/victoria-metrics", "app/vmalert"},
		ldflags: "-X github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version=victoria-metrics-v1.150.0",
	}
)

// Program compiles the neighbour's programs and returns the path of one, by the last
// element of its package.
func (n Neighbour) Program(ctx context.Context, o Options, name string) (string, error) {
	dir, err := folder(ctx, o, n.target())
	return filepath.Join(dir, name), err
}

func (n Neighbour) target() target {
	t := target{
		name:   strings.ReplaceAll(strings.ToLower(n.Name), " ", "-"),
		title:  n.Name + " " + n.Version,
		source: &n,
		args:   []string{"-trimpath", "-mod=mod", "-ldflags", "-s -w " + n.ldflags},
		output: "./",
	}
	if n.tags != "" {
		t.args = append(t.args, "-tags", n.tags)
	}
	for _, p := range n.packages {
		t.pkgs = append(t.pkgs, path.Join(n.Module, p))
	}
	return t
}

// Dir downloads the module, if it is not in the module cache, and returns its folder.
// Go holds it against the checksum database.
func (n Neighbour) Dir(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", n.Module+"@"+n.Version)
	cmd.Dir = os.TempDir() // outside of any module: nothing is written to a go.sum
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); err == nil {
		err = jsonErr
	}
	if err != nil || answer.Dir == "" {
		return "", fmt.Errorf("downloading %s@%s (it needs the network, or a module mirror in GOPROXY): %w: %s%s", n.Module, n.Version, errors.Join(err), answer.Error, stderr.Bytes())
	}
	return answer.Dir, nil
}

// besideIt are replacements by modules of the same repository, which a published module
// does not have beside it. The versions that it requires take their place; where it
// requires none that exists, unversioned, they are published with its own.
var (
	besideIt    = regexp.MustCompile(`(?m)^.* => \.\.?/.*\n`)
	unversioned = []byte("v0.0.0-00010101000000-000000000000")
)

// modfile puts the module's go.mod and go.sum into dir: those in the module
// cache cannot be written.
func (n Neighbour) modfile(module, dir string) (string, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err == nil {
			text = bytes.ReplaceAll(besideIt.ReplaceAll(text, nil), unversioned, []byte(n.Version))
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", fmt.Errorf("compiling %s: %w", n.Module, err)
		}
	}
	return filepath.Join(dir, "go.mod"), nil
}
