package crashstory

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/nodegroups"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// replica is one autoscaler as a process, with a proxy of its own before the API
// server.
type replica struct {
	*Proxy
	env    *Env
	name   string
	spec   proc.Spec
	listen string
	groups func() // stops the pools' provider

	mu      sync.Mutex
	process *proc.Process
	starts  int
}

// newReplica prepares a replica; elect enables leader election.
func (b *Env) newReplica(name string, elect bool) (*replica, error) {
	certPEM, keyPEM, ca, err := b.Cluster.ServingCert("127.0.0.1")
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading the proxy's certificate: %w", err)
	}
	p, err := newProxy(b.Cluster.RESTConfig(), cert)
	if err != nil {
		return nil, err
	}
	r := &replica{Proxy: p, env: b, name: name}
	config, err := through(p, b.account, ca)
	if err != nil {
		return nil, err
	}
	groups, err := r.serveGroups(ca)
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(b.Cluster.Dir(), name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		return nil, fmt.Errorf("writing a kubeconfig: %w", err)
	}
	port, err := proc.ReservePort()
	if err != nil {
		return nil, err
	}
	r.listen = "127.0.0.1:" + strconv.Itoa(port)
	file := filepath.Join(b.Cluster.Dir(), name+".yaml")
	if err := os.WriteFile(file, []byte(configText(b.metrics.URL, groups, elect)), 0o600); err != nil {
		return nil, fmt.Errorf("writing a configuration: %w", err)
	}
	r.spec = proc.Spec{
		Name: name, Path: filepath.Join(b.Programs, "gpuscale-autoscaler"), Log: b.Cluster.LogFile(name), Env: []string{"GOMAXPROCS=2"},
		Args: []string{"--config=" + file, "--kubeconfig=" + kubeconfig, "--listen=" + r.listen},
	}
	return r, nil
}

// through is a kubeconfig whose requests come through the proxy.
func through(p *Proxy, file string, ca []byte) (*clientcmdapi.Config, error) {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading a kubeconfig: %w", err)
	}
	for _, c := range config.Clusters {
		c.Server, c.CertificateAuthorityData = p.URL, ca
	}
	return config, nil
}

// serveGroups starts the pools' provider. Its writes come through the replica's proxy too: the replica is
// killed before and after each. It reads for itself: the lists that a replica asks for are counted.
func (r *replica) serveGroups(ca []byte) (address string, err error) {
	config, err := through(r.Proxy, r.env.maker, ca)
	if err != nil {
		return "", err
	}
	rc, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return "", fmt.Errorf("reading a kubeconfig: %w", err)
	}
	c, err := client.New(rc, client.Options{Scheme: scheme.New()})
	if err != nil {
		return "", fmt.Errorf("making a client: %w", err)
	}
	maker := nodegroups.New(c, r.env.Admin, partition.NewManager(c, r.env.Admin, partition.DefaultConfigMap))
	maker.ExternalBoot = true
	address, r.groups, err = maker.Serve()
	return address, err
}

// configText shortens the autoscaler's delays as the story shortens time. It
// reconciles at every interval: the number of reconciles is how a test knows what the
// autoscaler has seen. Its time-outs are longer than a step: an operation that a kill
// lost leaves the story stuck.
func configText(prometheus, groups string, elect bool) string {
	return fmt.Sprintf(`interval: 100ms
idleInterval: 0s
settle: 0s
prometheus: {url: %s, interval: 100ms, timeout: 2s, maxAge: 10s}
exporterNamespaces: ['*']
externalGRPC: {%s: {address: %q}}
leaderElection: {enabled: %t, leaseDuration: 10s, renewDeadline: 7s, retryPeriod: 500ms}
policy:
  reclaimBorrowed: true
  scaleDownCooldown: 1s
  removalInterval: 1s
  repartitionCooldown: 1s
  repartitionTimeout: 5m
  drainCooldown: 1s
  drainTimeout: 5m
`, prometheus, nodegroups.Name, groups, elect)
}

// start the process, unless it runs.
func (r *replica) start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		return nil
	}
	p, err := r.env.Cluster.Processes().Start(r.spec)
	if err != nil {
		return err
	}
	r.process = p
	r.starts++
	return nil
}

// kill ends the process as a crash would.
func (r *replica) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		r.process.Kill()
		r.process = nil
	}
}

// crash kills the process and starts it again.
func (r *replica) crash() {
	r.kill()
	_ = r.start() // a program that cannot be started stops the story, which says where
}

// stop stops the process without ending it (SIGSTOP); goOn lets it go on.
func (r *replica) stop() error { return r.signal(syscall.SIGSTOP) }
func (r *replica) goOn() error { return r.signal(syscall.SIGCONT) }

func (r *replica) signal(s syscall.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process == nil {
		return fmt.Errorf("%s does not run", r.name)
	}
	return r.process.Signal(s)
}

// close ends the replica for good.
func (r *replica) close() {
	r.kill()
	r.groups()
	r.Proxy.Close()
}

// metrics are the process's own, by series as it is written.
func (r *replica) metrics(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.listen+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 && !strings.HasPrefix(lines.Text(), "#") {
			if v, err := strconv.ParseFloat(lines.Text()[i+1:], 64); err == nil {
				out[lines.Text()[:i]] = v
			}
		}
	}
	return out, lines.Err()
}

// reconciles that succeeded since the process started.
func (r *replica) reconciles(ctx context.Context) (float64, error) {
	m, err := r.metrics(ctx)
	return m[metric.AutoscalerReconciles.Name+`{result="ok"}`], err
}

// turned waits until the leader, whichever it is, has completed n more reconciles.
func turned(ctx context.Context, leader func() *replica, n float64) error {
	var last *replica
	from := 0.0
	return await.Until(ctx, func(ctx context.Context) error {
		r := leader()
		now, err := r.reconciles(ctx)
		if err != nil {
			return fmt.Errorf("%s does not answer: %w", r.name, err)
		}
		if r != last || now < from { // it has just become the leader, or started again
			last, from = r, now
		}
		if now-from < n {
			return fmt.Errorf("%g of %g reconciles of %s have ended", now-from, n, r.name)
		}
		return nil
	})
}

// ended waits until the process has ended by itself.
func (r *replica) ended(ctx context.Context) error {
	r.mu.Lock()
	p := r.process
	r.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s goes on: %w", r.name, context.Cause(ctx))
	}
}
