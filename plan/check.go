package plan

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/gpu/demand"
	"github.com/gpuscale/gpuscale/gpu/mig"
	"github.com/gpuscale/gpuscale/gpu/quota"
)

// Check returns all problems of a snapshot, joined, each with the path of its
// field; nil for none. No plan of an invalid snapshot may be executed.
func (s Snapshot) Check() error { return joined(s.problems()) }

// problems returns all problems of a snapshot. Those of one object follow each other.
func (s Snapshot) problems() []Problem {
	c := &checker{tables: s.Tables}
	if s.Now.IsZero() {
		c.add("now", "is not set")
	}
	pools, nodes, pods := make(map[string]bool, len(s.Pools)), make(map[string]bool, len(s.Nodes)), make(map[string]bool, len(s.Pods))
	for i := range s.Pools {
		c.of = Problem{Kind: KindPool, Name: s.Pools[i].Name, at: i}
		c.pool(&s.Pools[i], pools)
	}
	for i := range s.Nodes {
		c.of = Problem{Kind: KindNode, Name: s.Nodes[i].Name, at: i}
		c.node(&s.Nodes[i], pools, nodes)
	}
	for i := range s.Pods {
		c.of = Problem{Kind: KindPod, Name: s.Pods[i].Key(), at: i}
		c.pod(&s.Pods[i], nodes, pods)
	}
	c.tenants(s.Tenants)
	forecasts := map[string]bool{}
	for i := range s.Forecasts {
		c.of = Problem{Kind: KindForecast, Name: s.Forecasts[i].Name, at: i}
		c.forecast(&s.Forecasts[i], forecasts)
	}
	c.of = Problem{}
	c.state(&s.State)
	return c.problems
}

func joined(problems []Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p.Err
	}
	return errors.Join(errs...)
}

// Check returns all problems of a policy, joined, each with the name of its field;
// nil for none.
func (p Policy) Check() error {
	c := checker{}
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		field := v.Type().Field(i).Tag.Get("json")
		switch x := v.Field(i).Interface().(type) {
		case int:
			if field != "expendablePodsPriorityCutoff" {
				c.notNegative(field, int64(x))
			} else if x < math.MinInt32 || x > math.MaxInt32 {
				c.add(field, "is not a 32-bit number: %d", x)
			}
		case time.Duration:
			if x < 0 {
				c.add(field, "is negative: %s", x)
			}
		case float64:
			if strings.Contains(field, "Cost") {
				c.amount(field, x)
			} else {
				c.share(field, x)
			}
		case Headroom:
			if !slices.Contains([]Headroom{HeadroomNone, HeadroomLow, HeadroomExpected, HeadroomHigh}, x) {
				c.add(field, "want none, low, expected or high: %q", x)
			}
		}
	}
	return joined(c.problems)
}

type checker struct {
	of       Problem // the object that is checked, without an error
	part     string  // the part of it that is checked, ".template"; empty for all
	problems []Problem
	tables   mig.Tables // what nodes have published
	layout   mig.Layout // of the GPU that is checked
	// legal is the last layout that was found to be legal, on the product legalOn.
	legal   mig.Layout
	legalOn string
}

// add records a problem of a field: of the object that is checked, of the tree of tenants, or of the snapshot.
func (c *checker) add(field, format string, args ...any) {
	p, path := c.of, field
	switch {
	case p.Kind != "" && p.at >= 0:
		path = fmt.Sprintf("%ss[%s]%s%s", p.Kind, p.Name, c.part, field)
	case p.Kind != "":
		path = string(p.Kind) + "s"
	}
	p.Err = fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	c.problems = append(c.problems, p)
}

func (c *checker) name(field, name string, seen map[string]bool) {
	switch {
	case name == "" || strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/"):
		c.add(field, "has no name")
	case seen[name]:
		c.add(field, "occurs twice")
	}
	seen[name] = true
}

func (c *checker) notNegative(field string, v int64) {
	if v < 0 {
		c.add(field, "is negative: %d", v)
	}
}

// amount checks for a finite number that is not negative.
func (c *checker) amount(field string, v float64) {
	if !(v >= 0) || math.IsInf(v, 1) {
		c.add(field, "want a number from 0: %v", v)
	}
}

// share checks for a number from 0 to 1.
func (c *checker) share(field string, v float64) {
	if !(v >= 0 && v <= 1) {
		c.add(field, "want a share, 0 … 1: %v", v)
	}
}

func (c *checker) pool(p *Pool, seen map[string]bool) {
	c.name("", p.Name, seen)
	for _, f := range []struct {
		field string
		v     int64
	}{{".min", int64(p.Min)}, {".max", int64(p.Max)}, {".target", int64(p.Target)}, {".size", int64(p.Size)}, {".failed", int64(p.Failed)},
		{".readyAfter", int64(p.ReadyAfter)}, {".idleAfter", int64(p.IdleAfter)}, {".mig.idleAfter", int64(p.MIG.IdleAfter)},
		{".mig.duration", int64(p.MIG.Duration)}, {".template.cpuMilli", p.Template.CPUMilli}, {".template.memoryMi", p.Template.MemoryMi}} {
		c.notNegative(f.field, f.v)
	}
	if p.Min > p.Max {
		c.add(".min", "%d is more than max %d", p.Min, p.Max)
	}
	if p.PricePerHour < 0 || p.PricePerHour != p.PricePerHour {
		c.add(".pricePerHour", "is not a price: %v", p.PricePerHour)
	}
	c.amount(".interruptionsPerHour", p.InterruptionsPerHour)
	c.part = ".template"
	c.others(p.Template.Others)
	c.gpus(p.Template.GPUs)
	c.part = ""
}

func (c *checker) others(list []Resource) {
	for _, r := range list {
		if r.Amount < 0 {
			c.add(".others["+r.Name+"]", "is negative: %d", r.Amount)
		}
	}
}

func (c *checker) node(n *Node, pools, seen map[string]bool) {
	c.name("", n.Name, seen)
	if n.Pool != "" && !pools[n.Pool] {
		c.add(".pool", "there is no pool %q", n.Pool)
	}
	c.notNegative(".cpuMilli", n.CPUMilli)
	c.notNegative(".memoryMi", n.MemoryMi)
	c.others(n.Others)
	c.gpus(n.GPUs)
	if a := n.Allocatable; a != nil {
		c.notNegative(".allocatable.gpus", int64(a.GPUs))
		for _, in := range a.MIG {
			if in.Count < 0 {
				c.add(".allocatable.mig["+in.Name+"]", "is negative: %d", in.Count)
			}
		}
	}
	if o := n.Operation; o != nil {
		switch o.Phase {
		case PhasePending, PhaseSucceeded, PhaseFailed:
		default:
			c.add(".operation.phase", "want pending, succeeded or failed: %q", o.Phase)
		}
	}
	if d := n.Drain; d != nil {
		if d.Reason != NodeUnderused && d.Reason != NodeSick && d.Reason != NodeInterrupted && d.Reason != NodeEmpty {
			c.add(".drain.reason", "want %s, %s, %s or %s: %q", NodeUnderused, NodeSick, NodeInterrupted, NodeEmpty, d.Reason)
		}
		if d.Deadline.Before(d.Started) {
			c.add(".drain.deadline", "is before the drain started")
		}
	}
}

func (c *checker) gpus(gpus []GPU) {
	for i := range gpus {
		if i > 0 && gpus[i].Index <= gpus[i-1].Index {
			c.add(gpuPath(&gpus[i]), "occurs twice, or is not in order")
		}
		c.instances(&gpus[i])
	}
}

func gpuPath(device *GPU) string { return fmt.Sprintf(".gpus[%d]", device.Index) }

func (c *checker) instances(device *GPU) {
	if !device.MIG && len(device.Instances) > 0 {
		c.add(gpuPath(device), "has GPU instances and is not in MIG mode")
	}
	if device.MIG && len(device.AllocatedTo) > 0 {
		c.add(gpuPath(device), "is allocated as a whole GPU while in MIG mode")
	}
	c.layout = c.layout[:0]
	for i := range device.Instances {
		if in := &device.Instances[i]; in.Placed {
			c.layout = append(c.layout, in.Placement)
		}
	}
	if len(c.layout) == 0 || device.Model.Name == c.legalOn && slices.Equal(c.layout, c.legal) {
		return // most GPUs: they have no instances, or the same as the one before
	}
	t, ok := c.tables.ForModel(device.Model.Name)
	if !ok {
		return
	}
	if err := t.Legal(mig.NewLayout(c.layout...)); err != nil {
		c.add(gpuPath(device)+".instances", "%v", err)
		return
	}
	c.legalOn, c.legal = device.Model.Name, slices.Clone(c.layout)
}

func (c *checker) pod(p *Pod, nodes, seen map[string]bool) {
	c.name("", c.of.Name, seen)
	if p.Node != "" && !nodes[p.Node] {
		c.add(".node", "there is no node %q", p.Node)
	}
	c.notNegative(".cpuMilli", p.CPUMilli)
	c.notNegative(".memoryMi", p.MemoryMi)
	c.others(p.Others)
	c.demand(&p.Demand)
	for _, index := range p.PartsOn {
		c.notNegative(".partsOn", int64(index))
	}
	c.gang(p)
	c.leaving(p)
	budgets := map[string]bool{}
	for _, b := range p.Budgets {
		at := ".budgets[" + b.Name + "]"
		c.name(at, b.Name, budgets)
		c.notNegative(at+".allowed", int64(b.Allowed))
	}
}

func (c *checker) demand(d *demand.Demand) {
	c.notNegative(".demand.gpus", int64(d.GPUs))
	for _, i := range d.MIG {
		if i.Count <= 0 {
			c.add(".demand.mig["+i.Name+"]", "want a count of 1 or more: %d", i.Count)
		}
		n, err := mig.ParseName(i.Name)
		if err != nil {
			c.add(".demand.mig", "%v", err)
		} else if n.Compute != i.Profile.Compute || n.Attrs != i.Profile.Attrs || i.Profile.Memory != 0 || n.GB != i.MemoryGB {
			c.add(".demand.mig["+i.Name+"]", "does not match its name: %s, %d GB", i.Profile, i.MemoryGB)
		}
	}
	if f := d.Fraction; f != nil {
		c.share(".demand.fraction.coreMilli", float64(f.CoreMilli)/1000)
		c.share(".demand.fraction.memoryMilli", float64(f.MemoryMilli)/1000)
		c.notNegative(".demand.fraction.memoryMiB", int64(f.MemoryMiB))
		c.notNegative(".demand.fraction.gpus", int64(f.GPUs))
	}
}

func (c *checker) gang(p *Pod) {
	switch {
	case p.Gang == "" && p.GangMin != 0:
		c.add(".gangMin", "is %d, and the pod is in no gang", p.GangMin)
	case p.Gang != "" && p.GangMin < 1:
		c.add(".gangMin", "want 1 or more members of gang %s: %d", p.Gang, p.GangMin)
	case p.Gang != "" && !isKey(p.Gang):
		c.add(".gang", "want namespace/name: %q", p.Gang)
	}
}

// leaving checks a pod's state for contradictions.
func (c *checker) leaving(p *Pod) {
	switch {
	case p.Unmade && p.Node != "":
		c.add(".unmade", "the pod does not exist yet, and runs on %s", p.Node)
	case p.Leaving && p.Node == "":
		c.add(".leaving", "the pod is leaving, and runs on no node")
	case !p.Leaving && !p.LeavesAt.IsZero():
		c.add(".leavesAt", "is set, and the pod is not leaving")
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
		c.of, all[i] = Problem{Kind: KindTenant, Name: t.Name, at: i}, t.Tenant
		c.notNegative(".reclaimIdle", int64(t.ReclaimIdle))
	}
	c.of = Problem{Kind: KindTenant, at: -1}
	_, err := quota.NewTree(all)
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range many.Unwrap() {
			c.add("", "%v", e)
		}
	} else if err != nil {
		c.add("", "%v", err)
	}
}

func (c *checker) forecast(f *Forecast, seen map[string]bool) {
	c.name("", f.Name, seen)
	if f.Like.Key() != f.Name {
		c.add(".like", "want the forecast's workload, not %s", f.Like.Key())
	}
	if f.Like.Node != "" || f.Like.Leaving {
		c.add(".like", "runs or is leaving; want a replica that does not exist yet")
	}
	c.part = ".like"
	c.demand(&f.Like.Demand)
	c.gang(&f.Like)
	c.notNegative(".cpuMilli", f.Like.CPUMilli)
	c.notNegative(".memoryMi", f.Like.MemoryMi)
	c.part = ""
	c.notNegative(".have", int64(f.Have))
	c.amount(".low", f.Low)
	c.amount(".expected", f.Expected)
	c.amount(".high", f.High)
	c.amount(".error", f.Error)
	if f.Low > f.Expected || f.Expected > f.High {
		c.add("", "want low ≤ expected ≤ high: %v, %v, %v", f.Low, f.Expected, f.High)
	}
	if f.Unsure == "" && f.At.IsZero() {
		c.add(".at", "is not set")
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
