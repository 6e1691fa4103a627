package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// StopProgram ends one program on purpose, as a fault of a story: it is not
// reported as a failure. StartProgram brings it back.
func (c *Cluster) StopProgram(name string) error {
	return c.end(name, func(p *proc.Process) { p.Stop(5 * time.Second) })
}

// KillProgram is StopProgram without the chance to end in order.
func (c *Cluster) KillProgram(name string) error { return c.end(name, (*proc.Process).Kill) }

func (c *Cluster) end(name string, how func(*proc.Process)) error {
	p := c.group.Find(name)
	if p == nil {
		return fmt.Errorf("ending %s: it does not run", name)
	}
	how(p)
	return nil
}

// StartProgram starts a program again as it was, with its data and ports,
// and returns when it answers.
func (c *Cluster) StartProgram(ctx context.Context, name string) error {
	if c.group.Find(name) != nil {
		return fmt.Errorf("starting %s: it runs already", name)
	}
	c.specsMu.Lock()
	spec, known := c.specs[name]
	c.specsMu.Unlock()
	if !known {
		return fmt.Errorf("starting %s: this cluster has no such program", name)
	}
	if err := c.run(spec); err != nil {
		return err
	}
	if url := c.healthURL(name); url != "" {
		return c.WaitHTTP(ctx, name, url)
	}
	return nil
}

// healthURL is where a program reports its health. etcd's is the API server's,
// which is not ready without etcd.
func (c *Cluster) healthURL(name string) string {
	switch name {
	case APIServer, Etcd:
		return c.URL() + "/readyz"
	case ControllerManager:
		return "https://" + local(c.ports.controllerManager) + "/healthz"
	case Scheduler:
		return "https://" + local(c.ports.scheduler) + "/readyz"
	case KWOK:
		return "http://" + local(c.ports.kwok) + "/healthz"
	case Prometheus:
		return c.PrometheusURL() + "/-/ready"
	}
	return ""
}
