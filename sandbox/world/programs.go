package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/world/machines"
)

// stopGrace is how long a program may take to end in order.
const stopGrace = 3 * time.Second

// Service accounts of our programs, as deploy/manifests names them.
const (
	adapterAccount    = "gpuscale-adapter"
	autoscalerAccount = "gpuscale-autoscaler"
)

// adapterService is the name in the adapter's certificate.
const adapterService = adapterAccount + "." + systemNamespace + ".svc"

// startExporter runs the exporter of one node, as its DaemonSet pod would.
func (w *World) startExporter(_ context.Context, e machines.Exporter) (string, func(), error) {
	port, ok := w.ports[e.Node] // it stays its own, also while the exporter is paused
	if !ok {
		var err error
		if port, err = proc.ReservePort(); err != nil {
			return "", nil, err
		}
		w.ports[e.Node] = port
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	name := "gpuscale-exporter-" + e.Node
	p, err := w.cluster.Processes().Start(proc.Spec{
		Name: name,
		Path: w.binaries.Program("gpuscale-exporter"),
		Args: []string{"--address=" + address, "--kubernetes", "--pod-resources-kubelet-socket=" + e.Socket},
		Env: []string{
			"NODE_NAME=" + e.Node,
			"LD_LIBRARY_PATH=" + w.binaries.DCGM,
			fakenvml.EnvState + "=" + e.State,
			"GOMAXPROCS=1",
		},
		Log: w.cluster.LogFile(name),
	})
	if err != nil {
		return "", nil, err
	}
	return address, func() { p.Stop(stopGrace) }, nil
}

// startAdapter runs the adapter at a port that its APIServices already name.
func (w *World) startAdapter(ctx context.Context, port int, cert, key string) error {
	return w.startAs(ctx, adapterAccount, adapterConfig(w.cluster.PrometheusURL()), func(kubeconfig string) []string {
		return []string{
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
			"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		}
	})
}

// startAutoscaler runs the autoscaler and remembers where it answers.
func (w *World) startAutoscaler(ctx context.Context) error {
	port, err := proc.ReservePort()
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	config := autoscalerConfig(w.cluster.PrometheusURL(), w.groups)
	err = w.startAs(ctx, autoscalerAccount, config, func(string) []string { return []string{"--listen=" + address} })
	if err == nil {
		w.autoscaler.Store(&address)
	}
	return err
}

// startAs runs the program of a service account's name as it: it has the rights that its
// manifests give it and no more.
func (w *World) startAs(ctx context.Context, account, config string, flags func(kubeconfig string) []string) error {
	kubeconfig, err := w.cluster.ServiceAccountKubeconfig(ctx, systemNamespace, account)
	if err != nil {
		return fmt.Errorf("(its service account is declared in deploy/manifests): %w", err)
	}
	file, err := w.configFile(account+".yaml", config)
	if err != nil {
		return err
	}
	_, err = w.cluster.Processes().Start(proc.Spec{
		Name: account, Path: w.binaries.Program(account), Log: w.cluster.LogFile(account),
		Args: append(flags(kubeconfig), "--config="+file, "--kubeconfig="+kubeconfig),
	})
	return err
}

// adapterConfig looks as often as the sandbox scrapes.
func adapterConfig(prometheus string) string {
	return fmt.Sprintf(`prometheus:
  url: %s
interval: 1s
maxAge: 10s
`, prometheus)
}

// autoscalerConfig shortens the autoscaler's delays as the story shortens time: a
// node that boots in seconds is not kept for ten minutes. Idle reconciles are as
// frequent as scrapes: otherwise the counters of GPU time would grow in steps as
// wide as the report's. The sandbox's exporters are no pods: their targets have no
// namespace.
func autoscalerConfig(prometheus, groups string) string {
	return fmt.Sprintf(`idleInterval: 0s
prometheus:
  url: %s
  interval: 1s
  maxAge: 10s
exporterNamespaces: ['*']
externalGRPC: {%s: {address: %q}}
leaderElection:
  enabled: false
policy:
  scaleDownCooldown: 10s
  repartitionCooldown: 5s
  repartitionTimeout: 60s
`, prometheus, nodegroups.Name, groups)
}

func (w *World) configFile(name, text string) (string, error) {
	path := filepath.Join(w.cluster.Dir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}
