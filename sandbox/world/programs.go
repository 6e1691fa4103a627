package world

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/gpuscale/gpuscale/exporter/dcgm/fakedcgm"
	"github.com/gpuscale/gpuscale/internal/await"
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
	port, err := w.ports.port(e.Node)
	if err != nil {
		return "", nil, err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	name := "gpuscale-exporter-" + e.Node
	p, err := w.cluster.Processes().Start(proc.Spec{
		Name: name,
		Path: w.binaries.Exporter,
		Args: []string{"--address=" + address, "--kubernetes", "--pod-resources-kubelet-socket=" + e.Socket},
		Env: []string{
			"NODE_NAME=" + e.Node,
			"LD_LIBRARY_PATH=" + w.binaries.DCGM,
			fakedcgm.EnvState + "=" + e.State,
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
	kubeconfig, err := w.account(ctx, adapterAccount)
	if err != nil {
		return err
	}
	config, err := w.configFile("adapter.yaml", adapterConfig(w.cluster.PrometheusURL()))
	if err != nil {
		return err
	}
	_, err = w.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-adapter",
		Path: w.binaries.Adapter,
		Args: []string{
			"--config=" + config,
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		},
		Log: w.cluster.LogFile("gpuscale-adapter"),
	})
	return err
}

// startAutoscaler runs the autoscaler and remembers where it answers.
func (w *World) startAutoscaler(ctx context.Context) error {
	kubeconfig, err := w.account(ctx, autoscalerAccount)
	if err != nil {
		return err
	}
	port, err := w.ports.port(autoscalerAccount)
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	config, err := w.configFile("autoscaler.yaml", autoscalerConfig(w.cluster.PrometheusURL(), w.groups))
	if err != nil {
		return err
	}
	_, err = w.cluster.Processes().Start(proc.Spec{
		Name: "gpuscale-autoscaler",
		Path: w.binaries.Autoscaler,
		Args: []string{"--config=" + config, "--listen=" + address, "--kubeconfig=" + kubeconfig},
		Log:  w.cluster.LogFile("gpuscale-autoscaler"),
	})
	if err == nil {
		w.autoscaler.Store(&address)
	}
	return err
}

// account is a kubeconfig of one of our service accounts, so that a program has
// the rights its manifests give it and no more.
func (w *World) account(ctx context.Context, name string) (string, error) {
	kubeconfig, err := w.cluster.ServiceAccountKubeconfig(ctx, systemNamespace, name)
	if err != nil {
		return "", fmt.Errorf("(its service account is declared in deploy/manifests): %w", err)
	}
	return kubeconfig, nil
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

// waitReady asks a program's /readyz until it agrees.
func (w *World) waitReady(ctx context.Context, name, url string) error {
	client := &http.Client{Timeout: time.Second}
	err := w.cluster.Await(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return await.Final(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", resp.Status)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", name, err)
	}
	return nil
}
