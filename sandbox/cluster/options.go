package cluster

import (
	"log/slog"
	"os"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/build"
)

// Names of the programs, in log files, messages, StopProgram and ExtraArgs.
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
	Keep   bool   // leave the folder in place after Stop

	// Prometheus is the content of its configuration file; empty: no
	// Prometheus. Relative paths in it (rule_files, file_sd_configs) are
	// relative to the folder PrometheusDir.
	Prometheus []byte

	// Fixed ports; 0: any free one.
	APIServerPort  int
	PrometheusPort int

	// How long a node's lease may be overdue; 0: 900 s, which is right for
	// thousands of KWOK nodes on a small machine.
	NodeMonitorGrace time.Duration

	HPASync          time.Duration // 0: 1 s
	HPAStabilization time.Duration // of scaling down; 0: none
	HPATolerance     float64       // 0: Kubernetes' default, 0.1

	// Stages replaces DefaultStages: what KWOK does with nodes and pods.
	Stages []byte

	// Egress lets real nodes join, in networks of their own; see SetEgress.
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
	if o.NodeMonitorGrace == 0 {
		o.NodeMonitorGrace = 900 * time.Second
	}
	if o.HPASync == 0 {
		o.HPASync = time.Second
	}
	if o.Stages == nil {
		o.Stages = DefaultStages()
	}
	return o
}
