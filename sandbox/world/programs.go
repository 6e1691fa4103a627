package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/fakenvml"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/world/machines"
)

// stopGrace is how long a program may take to end in order.
const stopGrace = 3 * time.Second

// Service accounts of our programs, as in deploy/manifests.
const (
	adapterAccount    = "gpuscale-adapter"
	autoscalerAccount = "gpuscale-autoscaler"
)

// adapterService is the DNS name in the adapter's certificate.
const adapterService = adapterAccount + "." + systemNamespace + ".svc"

// Programs are gpuscale's programs as processes, with the service accounts of deploy/manifests.
type Programs struct {
	cluster  *cluster.Cluster
	client   client.Client
	binaries Binaries
	groups   string // address of the pools' provider

	ports      map[string]int         // of exporters, by node
	adapter    string                 // host:port
	autoscaler atomic.Pointer[string] // host:port; nil before it has started
}

// start starts the adapter and the autoscaler, and returns when the autoscaler is ready.
func (p *Programs) start(ctx context.Context) error {
	port, err := proc.ReservePort()
	if err != nil {
		return err
	}
	cert, key, ca, err := p.cluster.ServingCert(adapterService, "localhost", "127.0.0.1")
	if err != nil {
		return err
	}
	certFile, err := p.configFile("adapter.crt", string(cert))
	if err != nil {
		return err
	}
	keyFile, err := p.configFile("adapter.key", string(key))
	if err != nil {
		return err
	}
	here := func(o *unstructured.Unstructured) bool { return adapt(o, aggregated{port: port, caBundle: ca}) }
	if err := neighbours.Apply(ctx, p.client, filepath.Join(p.binaries.Root, "deploy/manifests/*.yaml"), here); err != nil {
		return err
	}
	p.adapter = "127.0.0.1:" + strconv.Itoa(port)
	if err := p.startAdapter(ctx, port, certFile, keyFile); err != nil {
		return err
	}
	if err := p.scrapeAdapter(ctx, ca); err != nil {
		return err
	}
	if err := p.startAutoscaler(ctx); err != nil {
		return err
	}
	return p.cluster.WaitHTTP(ctx, autoscalerAccount, p.AutoscalerURL()+"/readyz")
}

// AutoscalerURL is the autoscaler's URL; empty before it has started.
func (p *Programs) AutoscalerURL() string {
	if a := p.autoscaler.Load(); a != nil {
		return "http://" + *a
	}
	return ""
}

// AdapterURL is the adapter's own URL, which bypasses the API server.
func (p *Programs) AdapterURL() string { return "https://" + p.adapter }

// AdapterCA is the file with the CA of the adapter's certificate.
func (p *Programs) AdapterCA() string { return filepath.Join(p.cluster.PrometheusDir(), scraperCA) }

// startExporter starts the exporter of one node, as its DaemonSet pod would.
func (p *Programs) startExporter(e machines.Exporter) (string, func(), error) {
	port, ok := p.ports[e.Node] // the port stays reserved, also while the exporter is paused
	if !ok {
		var err error
		if port, err = proc.ReservePort(); err != nil {
			return "", nil, err
		}
		p.ports[e.Node] = port
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	name := "gpuscale-exporter-" + e.Node
	started, err := p.cluster.Processes().Start(proc.Spec{
		Name: name,
		Path: p.binaries.Program("gpuscale-exporter"),
		Args: []string{"--address=" + address, "--kubernetes", "--pod-resources-kubelet-socket=" + e.Socket},
		Env: []string{
			"NODE_NAME=" + e.Node,
			"LD_LIBRARY_PATH=" + p.binaries.DCGM,
			fakenvml.EnvState + "=" + e.State,
			"GOMAXPROCS=1",
		},
		Log: p.cluster.LogFile(name),
	})
	if err != nil {
		return "", nil, err
	}
	return address, func() { started.Stop(stopGrace) }, nil
}

// startAdapter starts the adapter at the port that its APIServices already name.
func (p *Programs) startAdapter(ctx context.Context, port int, cert, key string) error {
	return p.startAs(ctx, adapterAccount, adapterConfig(p.cluster.PrometheusURL()), func(string) []string {
		return []string{
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
			"--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
		}
	})
}

// startAutoscaler starts the autoscaler and stores its address.
func (p *Programs) startAutoscaler(ctx context.Context) error {
	port, err := proc.ReservePort()
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	config := autoscalerConfig(p.cluster.PrometheusURL(), p.groups)
	err = p.startAs(ctx, autoscalerAccount, config, func(string) []string { return []string{"--listen=" + address} })
	if err == nil {
		p.autoscaler.Store(&address)
	}
	return err
}

// startAs starts the program with the name of a service account, as that account. So it has exactly the
// permissions of its manifests.
func (p *Programs) startAs(ctx context.Context, account, config string, flags func(kubeconfig string) []string) error {
	kubeconfig, err := p.cluster.ServiceAccountKubeconfig(ctx, systemNamespace, account)
	if err != nil {
		return fmt.Errorf("(its service account is declared in deploy/manifests): %w", err)
	}
	file, err := p.configFile(account+".yaml", config)
	if err != nil {
		return err
	}
	_, err = p.cluster.Processes().Start(proc.Spec{
		Name: account, Path: p.binaries.Program(account), Log: p.cluster.LogFile(account),
		Args: append(flags(kubeconfig), "--config="+file, "--kubeconfig="+kubeconfig),
	})
	return err
}

// adapterConfig makes the adapter query as often as the sandbox scrapes.
func adapterConfig(prometheus string) string {
	return fmt.Sprintf(`prometheus:
  url: %s
interval: 1s
maxAge: 10s
`, prometheus)
}

// autoscalerConfig shortens the autoscaler's delays in the same way as the story shortens time: a node that
// boots in seconds is not kept for ten minutes. Idle reconciles are as frequent as scrapes; otherwise the
// counters of GPU time would grow in steps as wide as the report's. The sandbox's exporters are not pods, so
// their targets have no namespace.
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

func (p *Programs) configFile(name, text string) (string, error) {
	path := filepath.Join(p.cluster.Dir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing %s: %w", name, err)
	}
	return path, nil
}
