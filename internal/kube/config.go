package kube

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options of a connection. The zero Options finds the cluster by itself and uses
// the default limits.
type Options struct {
	// Kubeconfig is a file; empty means the pod's own service account, or
	// $KUBECONFIG and the user's default file outside a cluster.
	Kubeconfig string
	// Context of the kubeconfig; empty means its current one.
	Context string
	// UserAgent in the API server's audit log: "gpuscale-autoscaler/v0.1.0".
	UserAgent string
	// QPS and Burst are the client's own limits; 0 means 100 and 200. API priority
	// and fairness is the real limit; this one bounds the damage of a bug.
	QPS   float32
	Burst int
}

// Config returns the connection for o. It opens nothing.
func Config(o Options) (*rest.Config, error) {
	cfg, err := load(o)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst = o.QPS, o.Burst
	if cfg.QPS == 0 {
		cfg.QPS = 100
	}
	if cfg.Burst == 0 {
		cfg.Burst = 200
	}
	if o.UserAgent != "" {
		cfg.UserAgent = o.UserAgent
	}
	return cfg, nil
}

func load(o Options) (*rest.Config, error) {
	if o.Kubeconfig == "" && o.Context == "" && os.Getenv("KUBERNETES_SERVICE_HOST") != "" {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("reading the pod's service account: %w", err)
		}
		return cfg, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	switch {
	case err == nil:
		return cfg, nil
	case o.Kubeconfig != "":
		return nil, fmt.Errorf("reading kubeconfig %s: %w", o.Kubeconfig, err)
	case clientcmd.IsEmptyConfig(err): // client-go's message names a variable that is not read here
		return nil, errors.New("no cluster is configured: give --kubeconfig, or set KUBECONFIG to an existing file (not running in a pod)")
	}
	return nil, fmt.Errorf("finding a cluster (no --kubeconfig, not in a pod): %w", err)
}
