package cluster

import "github.com/gpuscale/gpuscale/sandbox/proc"

type ports struct {
	etcd, etcdPeer, apiServer, controllerManager, scheduler, kwok, prometheus int
}

// choosePorts reserves the programs' ports. They stay reserved while no program listens on them.
func (c *Cluster) choosePorts() error {
	p := &c.ports
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler, &p.kwok, &p.prometheus} {
		n, err := proc.ReservePort()
		if err != nil {
			return err
		}
		*port = n
	}
	return nil
}
