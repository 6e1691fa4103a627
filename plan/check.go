package plan

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// Check returns all problems of a snapshot, joined, each with the path of its
// field; nil for none. No plan of an invalid snapshot may be executed.
func (s Snapshot) Check() error { return errors.Join(s.check().errs...) }

func (s Snapshot) check() *checker {
	c := &checker{tables: s.Tables}
	if s.Now.IsZero() {
		c.add("now", "is not set")
	}
	pools, nodes, pods := make(map[string]bool, len(s.Pools)), make(map[string]bool, len(s.Nodes)), make(map[string]bool, len(s.Pods))
	for i := range s.Pools {
		c.kind, c.at = KindPool, i
		c.pool(&s.Pools[i], pools)
	}
	for i := range s.Nodes {
		c.kind, c.at = KindNode, i
		c.node(&s.Nodes[i], pools, nodes)
	}
	for i := range s.Pods {
		c.kind, c.at = KindPod, i
		c.pod(&s.Pods[i], nodes, pods)
	}
	c.kind = KindTenant
	c.tenants(s.Tenants)
	forecasts := map[string]bool{}
	for i := range s.Forecasts {
		c.kind, c.at = KindForecast, i
		c.forecast(&s.Forecasts[i], forecasts)
	}
	c.kind = ""
	c.state(&s.State)
	return c
}

// Check returns all problems of a policy, joined, each with the name of its field;
// nil for none.
func (p Policy) Check() error {
	c := checker{}
	for _, f := range []struct {
		field string
		v     int
	}{{"maxActionsPerReconcile", p.MaxActionsPerReconcile}, {"maxNodesPerScaleUp", p.MaxNodesPerScaleUp}, {"maxRemovalsPerReconcile", p.MaxRemovalsPerReconcile},
		{"maxNodesPerHour", p.MaxNodesPerHour}, {"maxRemovalsPerTenMinutes", p.MaxRemovalsPerTenMinutes}, {"okIdle", p.OKIdle},
		{"maxEvictionsPerReconcile", p.MaxEvictionsPerReconcile}, {"maxDrains", p.MaxDrains}, {"okUnready", p.OKUnready}} {
		c.notNegative(f.field, int64(f.v))
	}
	for _, f := range []struct {
		field string
		v     time.Duration
	}{{"idleHold", p.IdleHold}, {"scaleDownCooldown", p.ScaleDownCooldown}, {"repartitionCooldown", p.RepartitionCooldown}, {"repartitionTimeout", p.RepartitionTimeout},
		{"nodeLife", p.NodeLife}, {"nodeOverdue", p.NodeOverdue}, {"removalInterval", p.RemovalInterval}, {"drainTimeout", p.DrainTimeout},
		{"drainCooldown", p.DrainCooldown}, {"sickAfter", p.SickAfter}, {"replaceInterval", p.ReplaceInterval}} {
		if f.v < 0 {
			c.add(f.field, "is negative: %s", f.v)
		}
	}
	if n := p.ExpendablePodsPriorityCutoff; n < math.MinInt32 || n > math.MaxInt32 {
		c.add("expendablePodsPriorityCutoff", "is no priority, of 32 bits: %d", n)
	}
	c.share("maxUnready", p.MaxUnready)
	c.share("maxIdleAtOnce", p.MaxIdleAtOnce)
	c.share("maxRemovalShare", p.MaxRemovalShare)
	c.share("headroomWeight", p.HeadroomWeight)
	c.share("maxSickShare", p.MaxSickShare)
	c.amount("waitCostPerHour", p.WaitCostPerHour)
	c.amount("disruptionCost", p.DisruptionCost)
	c.amount("evictionCost", p.EvictionCost)
	switch p.Headroom {
	case HeadroomNone, HeadroomLow, HeadroomExpected, HeadroomHigh:
	default:
		c.add("headroom", "want none, low, expected or high: %q", p.Headroom)
	}
	return errors.Join(c.errs...)
}

type checker struct {
	kind   Kind // of the object that is checked, and its index in its list
	at     int
	errs   []error
	of     []subject  // of each error
	tables mig.Tables // what nodes have published
}

func (c *checker) add(path, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
	c.of = append(c.of, subject{c.kind, c.at})
}

func (c *checker) name(path, name string, seen map[string]bool) {
	switch {
	case name == "" || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/"):
		c.add(path, "has no name")
	case seen[name]:
		c.add(path, "is there twice")
	}
	seen[name] = true
}

func (c *checker) notNegative(path string, v int64) {
	if v < 0 {
		c.add(path, "is negative: %d", v)
	}
}

// amount checks for a finite number that is not negative.
func (c *checker) amount(path string, v float64) {
	if !(v >= 0) || math.IsInf(v, 1) {
		c.add(path, "want a number from 0: %v", v)
	}
}

// share checks for a number from 0 to 1.
func (c *checker) share(path string, v float64) {
	if !(v >= 0 && v <= 1) {
		c.add(path, "want a share, 0 … 1: %v", v)
	}
}

func (c *checker) pool(p *Pool, seen map[string]bool) {
	path := "pools[" + p.Name + "]"
	c.name(path, p.Name, seen)
	for _, f := range []struct {
		field string
		v     int64
	}{{"min", int64(p.Min)}, {"max", int64(p.Max)}, {"target", int64(p.Target)}, {"size", int64(p.Size)},
		{"readyAfter", int64(p.ReadyAfter)}, {"idleAfter", int64(p.IdleAfter)}, {"mig.idleAfter", int64(p.MIG.IdleAfter)},
		{"mig.duration", int64(p.MIG.Duration)}, {"template.cpuMilli", p.Template.CPUMilli}, {"template.memoryMi", p.Template.MemoryMi}} {
		c.notNegative(path+"."+f.field, f.v)
	}
	if p.Min > p.Max {
		c.add(path+".min", "%d is more than max %d", p.Min, p.Max)
	}
	if p.PricePerHour < 0 || p.PricePerHour != p.PricePerHour {
		c.add(path+".pricePerHour", "is no price: %v", p.PricePerHour)
	}
	c.amount(path+".interruptionsPerHour", p.InterruptionsPerHour)
	c.others(path+".template", p.Template.Others)
	c.gpus(path+".template", p.Template.GPUs)
}

func (c *checker) others(path string, list []Resource) {
	for _, r := range list {
		if r.Amount < 0 {
			c.add(path+".others["+r.Name+"]", "is negative: %d", r.Amount)
		}
	}
}

func (c *checker) node(n *Node, pools, seen map[string]bool) {
	path := "nodes[" + n.Name + "]"
	c.name(path, n.Name, seen)
	if n.Pool != "" && !pools[n.Pool] {
		c.add(path+".pool", "there is no pool %q", n.Pool)
	}
	c.notNegative(path+".cpuMilli", n.CPUMilli)
	c.notNegative(path+".memoryMi", n.MemoryMi)
	c.others(path, n.Others)
	c.gpus(path, n.GPUs)
	if a := n.Allocatable; a != nil {
		c.notNegative(path+".allocatable.gpus", int64(a.GPUs))
		for _, in := range a.MIG {
			c.notNegative(path+".allocatable.mig["+in.Name+"]", int64(in.Count))
		}
	}
	if o := n.Operation; o != nil {
		switch o.Phase {
		case PhasePending, PhaseSucceeded, PhaseFailed:
		default:
			c.add(path+".operation.phase", "is none of pending, succeeded, failed: %q", o.Phase)
		}
	}
	if d := n.Drain; d != nil {
		if d.Reason != NodeUnderused && d.Reason != NodeSick && d.Reason != NodeInterrupted && d.Reason != NodeEmpty {
			c.add(path+".drain.reason", "is none of %s, %s, %s, %s: %q", NodeUnderused, NodeSick, NodeInterrupted, NodeEmpty, d.Reason)
		}
		if d.Deadline.Before(d.Started) {
			c.add(path+".drain.deadline", "is before it started")
		}
	}
}

func (c *checker) gpus(path string, gpus []GPU) {
	ascending := true // then no index is there twice
	for i := range gpus[min(1, len(gpus)):] {
		ascending = ascending && gpus[i].Index < gpus[i+1].Index
	}
	seen := map[int]bool{}
	for i := range gpus {
		device := &gpus[i]
		if !ascending {
			if seen[device.Index] {
				c.add(gpuPath(path, device), "is there twice")
			}
			seen[device.Index] = true
		}
		c.instances(path, device)
	}
}

func gpuPath(of string, device *GPU) string { return fmt.Sprintf("%s.gpus[%d]", of, device.Index) }

func (c *checker) instances(of string, device *GPU) {
	if !device.MIG && len(device.Instances) > 0 {
		c.add(gpuPath(of, device), "has instances without MIG")
	}
	if device.MIG && len(device.AllocatedTo) > 0 {
		c.add(gpuPath(of, device), "is allocated as a whole GPU while in MIG mode")
	}
	var l mig.Layout
	for _, i := range device.Instances {
		if i.Placed {
			l = append(l, i.Placement)
		}
	}
	if len(l) == 0 {
		return // most GPUs: no look-up of the table
	}
	t, ok := c.tables.ForModel(device.Model.Name)
	if !ok {
		return
	}
	if err := t.Legal(mig.NewLayout(l...)); err != nil {
		c.add(gpuPath(of, device)+".instances", "%v", err)
	}
}

func (c *checker) pod(p *Pod, nodes, seen map[string]bool) {
	key := p.Key()
	path := "pods[" + key + "]"
	c.name(path, key, seen)
	if p.Node != "" && !nodes[p.Node] {
		c.add(path+".node", "there is no node %q", p.Node)
	}
	c.notNegative(path+".cpuMilli", p.CPUMilli)
	c.notNegative(path+".memoryMi", p.MemoryMi)
	c.others(path, p.Others)
	c.demand(path+".demand", p.Demand)
	for _, index := range p.PartsOn {
		c.notNegative(path+".partsOn", int64(index))
	}
	c.gang(path, p)
	c.leaving(path, p)
	budgets := map[string]bool{}
	for _, b := range p.Budgets {
		at := path + ".budgets[" + b.Name + "]"
		c.name(at, b.Name, budgets)
		c.notNegative(at+".allowed", int64(b.Allowed))
	}
}

func (c *checker) demand(path string, d demand.Demand) {
	c.notNegative(path+".gpus", int64(d.GPUs))
	for _, i := range d.MIG {
		if i.Count <= 0 {
			c.add(path+".mig["+i.Name+"]", "count is %d", i.Count)
		}
		n, err := mig.ParseName(i.Name)
		if err != nil {
			c.add(path+".mig", "%v", err)
		} else if n.Compute != i.Profile.Compute || n.Attrs != i.Profile.Attrs || i.Profile.Memory != 0 || n.GB != i.MemoryGB {
			c.add(path+".mig["+i.Name+"]", "is not what its name says: %s, %d GB", i.Profile, i.MemoryGB)
		}
	}
	if f := d.Fraction; f != nil {
		c.share(path+".fraction.coreMilli", float64(f.CoreMilli)/1000)
		c.share(path+".fraction.memoryMilli", float64(f.MemoryMilli)/1000)
		c.notNegative(path+".fraction.memoryMiB", int64(f.MemoryMiB))
		c.notNegative(path+".fraction.gpus", int64(f.GPUs))
	}
}

func (c *checker) gang(path string, p *Pod) {
	switch {
	case p.Gang == "" && p.GangMin != 0:
		c.add(path+".gangMin", "is %d, of no gang", p.GangMin)
	case p.Gang != "" && p.GangMin < 1:
		c.add(path+".gangMin", "want 1 or more of gang %s: %d", p.Gang, p.GangMin)
	case p.Gang != "" && !isKey(p.Gang):
		c.add(path+".gang", "want namespace/name: %q", p.Gang)
	}
}

// leaving checks for contradictions of a pod's state.
func (c *checker) leaving(path string, p *Pod) {
	switch {
	case p.Unmade && p.Node != "":
		c.add(path+".unmade", "is not made yet, and runs on %s", p.Node)
	case p.Leaving && p.Node == "":
		c.add(path+".leaving", "is leaving, and runs nowhere")
	case !p.Leaving && !p.LeavesAt.IsZero():
		c.add(path+".leavesAt", "is set, and it is not leaving")
	}
}

// isKey reports whether s is "namespace/name".
func isKey(s string) bool {
	namespace, name, ok := strings.Cut(s, "/")
	return ok && namespace != "" && name != ""
}

func (c *checker) tenants(tenants []Tenant) {
	all := make([]quota.Tenant, len(tenants))
	for i, t := range tenants {
		c.at, all[i] = i, t.Tenant
		c.notNegative("tenants["+t.Name+"].reclaimIdle", int64(t.ReclaimIdle))
	}
	c.at = -1
	_, err := quota.NewTree(all)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			c.add("tenants", "%v", e)
		}
	} else if err != nil {
		c.add("tenants", "%v", err)
	}
}

func (c *checker) forecast(f *Forecast, seen map[string]bool) {
	path := "forecasts[" + f.Name + "]"
	c.name(path, f.Name, seen)
	if f.Like.Key() != f.Name {
		c.add(path+".like", "is called %s", f.Like.Key())
	}
	if f.Like.Node != "" || f.Like.Leaving {
		c.add(path+".like", "runs or is leaving; want a replica that does not exist yet")
	}
	c.demand(path+".like.demand", f.Like.Demand)
	c.gang(path+".like", &f.Like)
	c.notNegative(path+".like.cpuMilli", f.Like.CPUMilli)
	c.notNegative(path+".like.memoryMi", f.Like.MemoryMi)
	c.notNegative(path+".have", int64(f.Have))
	c.amount(path+".low", f.Low)
	c.amount(path+".expected", f.Expected)
	c.amount(path+".high", f.High)
	c.amount(path+".error", f.Error)
	if f.Low > f.Expected || f.Expected > f.High {
		c.add(path, "want low ≤ expected ≤ high: %v, %v, %v", f.Low, f.Expected, f.High)
	}
	if f.Unsure == "" && f.At.IsZero() {
		c.add(path+".at", "is not set")
	}
}

func (c *checker) state(m *State) {
	growths := func(path string, all map[string][]Growth) {
		for _, pool := range slices.Sorted(maps.Keys(all)) {
			for _, g := range all[pool] {
				c.notNegative(path+"["+pool+"].nodes", int64(g.Nodes))
			}
		}
	}
	growths("state.grown", m.Grown)
	growths("state.removed", m.Removed)
	for _, name := range slices.Sorted(maps.Keys(m.Failures)) {
		c.notNegative("state.failures["+name+"].count", int64(m.Failures[name].Count))
	}
}
