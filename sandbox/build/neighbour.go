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

// Neighbour is another project's program that tests run beside ours. It is compiled from its own module, with
// the versions of that module's go.mod and go.sum, as that project compiles it.
type Neighbour struct {
	Name            string // in the cache and in messages
	Module, Version string
	packages        []string // below the module
	ldflags, tags   string
}

// The neighbours whose programs tests run.
var (
	// Later versions of Alertmanager require pages that Node.js compiles.
	Alertmanager = Neighbour{Name: "Alertmanager", Module: "github.com/prometheus/alertmanager", Version: "v0.31.1", packages: []string{"cmd/alertmanager"}}
	// The controllers of Cluster, MachineDeployment, MachineSet, Machine and MachinePool.
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
	// Without the build tag slicelabels, Thanos reads Prometheus' labels in a wrong memory layout and panics.
	Thanos           = Neighbour{Name: "Thanos", Module: "github.com/thanos-io/thanos", Version: "v0.42.4", packages: []string{"cmd/thanos"}, tags: "slicelabels"}
	Trainer          = Neighbour{Name: "Trainer", Module: "github.com/kubeflow/trainer/v2", Version: "v2.1.0", packages: []string{"cmd/trainer-controller-manager"}}
	TrainingOperator = Neighbour{Name: "Training Operator", Module: "github.com/kubeflow/training-operator", Version: "v1.9.3", packages: []string{"cmd/training-operator.v1"}}
	VictoriaMetrics  = Neighbour{
		Name: "VictoriaMetrics", Module: "github.com/VictoriaMetrics/VictoriaMetrics", Version: "v1.150.0", packages: []string{"app/victoria-metrics", "app/vmalert"},
		ldflags: "-X github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version=victoria-metrics-v1.150.0",
	}
)

// Program compiles the neighbour's programs and returns the path of one of them. The name is the last element
// of its package path.
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

// Dir downloads the module if it is not in the module cache, and returns its folder. Go checks it against the
// checksum database.
func (n Neighbour) Dir(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", n.Module+"@"+n.Version)
	cmd.Dir = os.TempDir() // outside of any module, so no go.sum is written
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

// besideIt matches replace directives with relative paths, to modules of the same repository. They are removed,
// since a published module does not contain those modules: the required versions are used. A required version
// that does not exist (unversioned) becomes the module's own version, since both are published together.
var (
	besideIt    = regexp.MustCompile(`(?m)^.* => \.\.?/.*\n`)
	unversioned = []byte("v0.0.0-00010101000000-000000000000")
)

// modfile copies the module's go.mod and go.sum into dir, since those in the module cache are read-only.
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
