package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// Cluster is a running control plane.
type Cluster struct {
	opts   Options
	dir    string
	lease  *os.File // dir, locked while we live; see sweep
	pki    *pki
	ports  ports
	client *kubernetes.Clientset
	group  *proc.Group
	egress *egress // nil without Options.Egress

	stop sync.Once
}

// Start starts the cluster and returns when it is ready: the API server and the controllers answer, pods can
// be scheduled, and Prometheus (if any) accepts queries. ctx bounds only the start; end the cluster with
// Stop.
func Start(ctx context.Context, o Options) (_ *Cluster, err error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	sweep(o.Parent, o.Log)
	c := &Cluster{opts: o, group: proc.NewGroup(o.Log)}
	if err := c.makeDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Stop()
			err = fmt.Errorf("starting the control plane: %w", err)
		}
	}()
	if err := c.choosePorts(); err != nil {
		return nil, err
	}
	if c.pki, err = newPKI(filepath.Join(c.dir, "pki")); err != nil {
		return nil, fmt.Errorf("making certificates: %w", err)
	}
	if c.client, err = kubernetes.NewForConfig(c.RESTConfig()); err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return c, c.bringUp(ctx)
}

// Dir is the folder with all files of this cluster: logs, certificates, kubeconfigs, data. Callers may add
// their own files.
func (c *Cluster) Dir() string { return c.dir }

// LogFile is where the named program logs to.
func (c *Cluster) LogFile(name string) string { return filepath.Join(c.dir, "logs", name+".log") }

// Kubeconfig is the path of the administrator's kubeconfig.
func (c *Cluster) Kubeconfig() string { return filepath.Join(c.dir, "admin.kubeconfig") }

// URL of the API server.
func (c *Cluster) URL() string { return "https://" + local(c.ports.apiServer) }

// RESTConfig of the administrator, without client-side rate limits. Each
// call returns its own copy.
func (c *Cluster) RESTConfig() *rest.Config {
	admin := c.pki.admin
	return &rest.Config{
		Host:            c.URL(),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.pki.ca.certPEM, CertData: admin.certPEM, KeyData: admin.keyPEM},
		QPS:             -1,
	}
}

// Client of the administrator.
func (c *Cluster) Client() *kubernetes.Clientset { return c.client }

// CA that signs the API server's certificate and all client certificates, PEM.
func (c *Cluster) CA() []byte { return c.pki.ca.certPEM }

// ServingCert returns a serving certificate for host names or IP addresses, and the CA for the caBundle of an
// APIService or webhook.
func (c *Cluster) ServingCert(names ...string) (certPEM, keyPEM, caBundle []byte, err error) {
	pair, err := c.pki.servingCA.serving(names...)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("making a serving certificate: %w", err)
	}
	return pair.certPEM, pair.keyPEM, c.pki.servingCA.certPEM, nil
}

// Processes is the group of the cluster's programs. Programs that callers start in it end with the cluster,
// and their death is reported like that of the cluster's own.
func (c *Cluster) Processes() *proc.Group { return c.group }

// Failed is closed when a program has ended that was not stopped on purpose.
func (c *Cluster) Failed() <-chan struct{} { return c.group.Failed() }

// Err returns which program ended and how, with the end of its log. It is nil while all run.
func (c *Cluster) Err() error { return c.group.Err() }

// Stop ends all programs, removes the folder, and returns when nothing is left. It can be called more than
// once.
func (c *Cluster) Stop() {
	c.stop.Do(func() {
		// The API server and etcd are stopped last, so all others can end in order. They themselves are killed.
		c.group.Stop(2*time.Second, 0, APIServer, Etcd)
		if c.egress != nil {
			_ = c.egress.server.Close()
		}
		if err := os.RemoveAll(c.dir); err != nil {
			c.opts.Log.Warn("could not remove the sandbox's folder", "dir", c.dir, "error", err)
		}
		_ = c.lease.Close()
	})
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
