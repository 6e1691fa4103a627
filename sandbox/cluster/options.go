package cluster

import (
	"log/slog"
	"os"

	"github.com/gpuscale/gpuscale/sandbox/build"
)

// Names of the programs in log files, messages, StopProgram and ExtraArgs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	KWOK              = "kwok"
	Prometheus        = "prometheus"
)

// Options of a cluster. Only Binaries must be set.
type Options struct {
	Binaries build.Paths
	Log      *slog.Logger // empty: discarded

	Parent string // where the cluster's folder is made; empty: the system's temporary folder

	// Prometheus is the content of its configuration file; empty for no Prometheus. Relative paths in it (rule_files,
	// file_sd_configs) are relative to PrometheusDir.
	Prometheus []byte

	// Egress lets real nodes in their own networks join; see SetEgress.
	Egress bool

	FeatureGates string              // "A=true,B=false", for all Kubernetes programs
	ExtraArgs    map[string][]string // by program name, put last so that they win
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Parent == "" {
		o.Parent = os.TempDir()
	}
	return o
}
