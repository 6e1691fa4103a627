package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// startTimeout is generous: a start takes seconds on an idle machine, and far longer on one that also
// compiles.
const startTimeout = 2 * time.Minute

// bringUp starts the programs in the order of their dependencies, and returns when all of them are ready to
// use.
func (c *Cluster) bringUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready after %s: is the machine very busy?", startTimeout))
	defer cancel()
	if err := c.writeConfigs(); err != nil {
		return err
	}
	if err := c.startEgress(); err != nil {
		return err
	}
	begin := time.Now()
	if err := c.run(c.etcdSpec()); err != nil {
		return err
	}
	if err := c.startPrometheus(); err != nil {
		return err
	}
	// The API server does not wait for etcd: it retries until etcd answers, and its own start takes about a second.
	if err := c.run(c.apiServerSpec()); err != nil {
		return err
	}
	// The other programs can start as soon as their RBAC roles exist. The API server completes its start meanwhile.
	if err := c.WaitHTTP(ctx, APIServer, c.URL()+"/readyz/poststarthook/rbac/bootstrap-roles"); err != nil {
		return err
	}
	for _, spec := range []proc.Spec{c.controllerManagerSpec(), c.schedulerSpec(), c.kwokSpec()} {
		if err := c.run(spec); err != nil {
			return err
		}
	}
	health := [][2]string{
		{APIServer, c.URL() + "/readyz"}, {Scheduler, "https://" + local(c.ports.scheduler) + "/readyz"},
		{ControllerManager, "https://" + local(c.ports.controllerManager) + "/healthz"}, {KWOK, "http://" + local(c.ports.kwok) + "/healthz"},
	}
	if url := c.PrometheusURL(); url != "" {
		health = append(health, [2]string{Prometheus, url + "/-/ready"})
	}
	for _, h := range health {
		if err := c.WaitHTTP(ctx, h[0], h[1]); err != nil {
			return err
		}
	}
	if err := c.waitServiceAccount(ctx); err != nil {
		return err
	}
	c.opts.Log.Info("control plane ready", "took", time.Since(begin).Round(10*time.Millisecond), "url", c.URL(), "dir", c.dir)
	return nil
}

func (c *Cluster) writeConfigs() error {
	for _, k := range []struct {
		file, user string
		groups     []string
	}{
		{c.kubeconfigPath(ControllerManager), "system:kube-controller-manager", nil},
		{c.kubeconfigPath(Scheduler), "system:kube-scheduler", nil},
		{c.kubeconfigPath(KWOK), "system:kwok", []string{"system:masters"}},
	} {
		if err := c.writeClientKubeconfig(k.file, k.user, k.groups); err != nil {
			return err
		}
	}
	if err := c.writeKubeconfig(c.Kubeconfig(), "admin", clientcmdapi.AuthInfo{ClientCertificateData: c.pki.admin.certPEM, ClientKeyData: c.pki.admin.keyPEM}); err != nil {
		return err
	}
	for name, data := range map[string][]byte{"stages.yaml": stages, "scheduler.yaml": c.schedulerConfig()} {
		if err := os.WriteFile(filepath.Join(c.dir, name), data, 0o600); err != nil {
			return fmt.Errorf("writing configuration: %w", err)
		}
	}
	return nil
}

func (c *Cluster) run(spec proc.Spec) error {
	_, err := c.group.Start(spec)
	return err
}

// WaitHTTP waits until the program answers 200 at the URL. It fails if the program ends.
func (c *Cluster) WaitHTTP(ctx context.Context, name, url string) error {
	return c.wait(ctx, name, func() error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		client, err := rest.HTTPClientFor(c.RESTConfig()) // the administrator's
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
		}
		return nil
	})
}

// waitServiceAccount waits for the first visible work of the controllers: the service account without which
// no pod can be created.
func (c *Cluster) waitServiceAccount(ctx context.Context) error {
	return c.wait(ctx, ControllerManager, func() error {
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return errors.New("it has not yet made the service account default/default")
		}
		return err
	})
}

// wait calls ready until it returns nil. It returns early if a program dies or ctx ends.
func (c *Cluster) wait(ctx context.Context, name string, ready func() error) error {
	err := c.Await(ctx, func(context.Context) error { return ready() })
	switch {
	case err == nil:
		return nil
	case c.group.Err() != nil, errors.Is(context.Cause(ctx), context.Canceled):
		return err
	}
	return fmt.Errorf("%s: %w; its log: %s", name, err, strings.Join(proc.Tail(c.LogFile(name), 5), "\n    "))
}

// Await calls done until it returns nil or ctx ends. If a program dies, it returns early with the last lines
// of that program's log.
func (c *Cluster) Await(ctx context.Context, done func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-c.group.Failed():
			cancel(c.group.Err())
		case <-ctx.Done():
		}
	}()
	return await.Until(ctx, done)
}
