package scenario_test

import (
	"fmt"

	"github.com/gpuscale/gpuscale/plan/scenario"
)

// tenants that pods name; the last one does not exist.
var tenants = []string{"t1", "t2", "deep", "none"}

// quotas declares a small tree of tenants, or none.
func (d *dice) quotas(do func(string, ...any)) {
	if d.n(3) == 0 {
		return
	}
	amounts := []string{"none", "1", "2", "3+4", "all"}
	do("quota root")
	do("quota t1 parent=root guarantee=%d borrow=%s lend=%s", d.n(3), amounts[d.n(5)], amounts[d.n(5)])
	do("quota t2 guarantee=%s limit=%s borrow=%s", amounts[d.n(4)], []string{"2", "3", "21+all", "all"}[d.n(4)], amounts[d.n(5)])
	do("quota deep parent=t1 reclaim-idle=%ds limit=%s", d.n(200), amounts[d.n(5)])
}

// gang declares the pods of a gang, some of them unmade.
func (d *dice) gang(do func(string, ...any), name string) {
	size := 1 + d.n(4)
	wants := []string{"gpu", "3g.40gb", "1g.10gb", "part:core=400"}[d.n(4)]
	extra := []string{"", " unmade", " tenant=t2", " priority=100 evictable"}[d.n(4)]
	extra += d.rules()
	do("pod %s-{0..%d} requests=(%s) gang=%s gang-min=%d%s", name, size-1, wants, name, 1+d.n(size+1), extra)
	if d.n(3) == 0 {
		do("pod %s-0 made", name)
	}
}

// share changes what pods, tenants and nodes share: gangs come, pods leave,
// nodes are drained or sick, GPUs are allocated and unused, forecasts are made.
func (d *dice) share(w *scenario.World, do func(string, ...any), step int) {
	pods, nodes := w.Sim.State.Pods, w.Sim.State.Nodes
	switch kind := d.n(8); {
	case kind == 0:
		d.gang(do, fmt.Sprintf("new/g%d", step))
	case kind == 1:
		low := d.n(4)
		do("forecast f/w%d requests=(%s) have=%d low=%d expected=%d high=%d at=%dm error=0.%d", d.n(3), []string{"gpu", "3g.40gb", "1g.6gb"}[d.n(3)],
			d.n(4), low, low+d.n(3), low+2+d.n(3), 1+d.n(30), d.n(10))
	case kind == 2:
		do("forecast f/w%d unsure=short", d.n(3))
	case kind == 3 && len(pods) > 0:
		if p := pods[d.n(len(pods))]; p.Node != "" {
			do("pod %s leaving=%ds", p.Key(), d.n(120))
		}
	case kind == 4 && len(nodes) > 0:
		n := nodes[d.n(len(nodes))]
		if n.Pool != "" && n.Operation == nil {
			do("node %s draining=%ds drain-deadline=%ds drain-reason=%s", n.Name, d.n(60), d.n(60), []string{"NodeUnderused", "NodeSick"}[d.n(2)])
		}
	case kind == 5 && len(nodes) > 0:
		if n := nodes[d.n(len(nodes))]; len(n.GPUs) > 0 {
			do("gpu %s/%d health=%s", n.Name, n.GPUs[0].Index, []string{"sick", "healthy"}[d.n(2)])
		}
	case kind == 6 && len(nodes) > 0:
		n := nodes[d.n(len(nodes))]
		for _, c := range n.GPUs {
			do("gpu %s/%d unused=%ds", n.Name, c.Index, d.n(400))
		}
	case kind == 7 && len(nodes) > 0:
		do("node %s holds-data", nodes[d.n(len(nodes))].Name)
		do("node %s leaves-in=%ds", nodes[d.n(len(nodes))].Name, d.n(300))
		do("tick failures=(%s/0=%d:at=%ds)", nodes[0].Name, 1+d.n(3), d.n(300))
	}
}

// rules tie a pod to others by zone, or have it request other resources.
func (d *dice) rules() string {
	group := []string{"x", "y"}[d.n(2)]
	switch d.n(10) {
	case 0:
		return fmt.Sprintf(" groups=(%s) spread=(zone:group=%s:skew=%d)", group, group, 1+d.n(2))
	case 1:
		return fmt.Sprintf(" groups=(%s) apart=(zone:group=%s)", group, []string{"x", "y"}[d.n(2)])
	case 2:
		return fmt.Sprintf(" groups=(%s) near=(zone:group=%s)", group, []string{"x", "y"}[d.n(2)])
	case 3:
		return fmt.Sprintf(" groups=(%s)", group)
	case 4:
		return fmt.Sprintf(" others=(rdma/hca=%d)", 1+d.n(2))
	}
	return ""
}
