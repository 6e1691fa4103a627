package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Options of a connection. The zero Options finds the cluster by itself.
type Options struct {
	// Kubeconfig is a file; empty means the pod's own service account, or
	// $KUBECONFIG and the user's default file outside a cluster.
	Kubeconfig string
	// Context of the kubeconfig; empty means its current one.
	Context string
	// UserAgent in the API server's audit log: "gpuscale-autoscaler/v0.1.0".
	UserAgent string
}

// The client's own limits. API priority and fairness is the real limit; this one bounds the
// damage of a bug.
const qps, burst = 100, 200

// Config returns the connection for o. It opens nothing.
func Config(o Options) (*rest.Config, error) {
	cfg, err := load(o)
	if err != nil {
		return nil, err
	}
	cfg.QPS, cfg.Burst, cfg.UserAgent = qps, burst, cmp.Or(o.UserAgent, cfg.UserAgent)
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
	for _, file := range rules.GetLoadingPrecedence() {
		if err := check(file); err != nil && (o.Kubeconfig != "" || !errors.Is(err, fs.ErrNotExist)) {
			return nil, fmt.Errorf("reading kubeconfig %s: %w", file, err)
		}
	}
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context}).ClientConfig()
	switch {
	case err == nil:
		return cfg, nil
	case o.Kubeconfig != "" && clientcmd.IsEmptyConfig(err): // client-go's message names a variable that is not read here
		return nil, fmt.Errorf("reading kubeconfig %s: %w", o.Kubeconfig, errNotKubeconfig)
	case o.Kubeconfig != "":
		return nil, fmt.Errorf("reading kubeconfig %s: %w", o.Kubeconfig, err)
	case clientcmd.IsEmptyConfig(err):
		return nil, errors.New("no cluster is configured: give --kubeconfig, or set KUBECONFIG to a kubeconfig that names a cluster (not running in a pod)")
	}
	return nil, fmt.Errorf("finding a cluster (no --kubeconfig, not in a pod): %w", err)
}

var errNotKubeconfig = errors.New("it names no cluster; `kubectl config view --raw --flatten` prints a kubeconfig")

// check reports a file that cannot be read or decoded. Of client-go's errors of decoding it keeps the line
// and the field; the rest quotes Go types.
func check(file string) error {
	_, err := clientcmd.LoadFromFile(file)
	if _, is := errors.AsType[*fs.PathError](err); is || err == nil {
		return err
	}
	what := "it is no YAML object of kind Config"
	if field, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		what = fmt.Sprintf("%s cannot be a %s", field.Field, field.Value)
	} else if strings.HasPrefix(err.Error(), "yaml: ") {
		what = err.Error()
	}
	return fmt.Errorf("%s; `kubectl config view --raw --flatten` prints a kubeconfig", what)
}

// Advised says what is wrong if the API server does not authenticate the caller. Other errors stay as they are.
func Advised(err error) error {
	if apierrors.IsUnauthorized(err) {
		return fmt.Errorf("the API server does not authenticate the caller, whose credentials may have expired: %w", err)
	}
	return err
}
