package cluster

import (
	"fmt"
	"time"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// StopProgram ends one program on purpose, so it is not reported as a failure.
func (c *Cluster) StopProgram(name string) error {
	return c.end(name, func(p *proc.Process) { p.Stop(5 * time.Second) })
}

// KillProgram is StopProgram with SIGKILL.
func (c *Cluster) KillProgram(name string) error { return c.end(name, (*proc.Process).Kill) }

func (c *Cluster) end(name string, how func(*proc.Process)) error {
	p := c.group.Find(name)
	if p == nil {
		return fmt.Errorf("ending %s: it does not run", name)
	}
	how(p)
	return nil
}
