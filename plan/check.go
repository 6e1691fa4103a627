package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Check returns everything that is wrong with a snapshot, joined, each with the
// path of its field; nil for nothing. A snapshot that does not pass was read
// wrongly and must not be acted on.
func (s Snapshot) Check() error {
	c := checker{}
	if s.Now.IsZero() {
		c.add("now", "is not set")
	}
	pools, nodes, pods := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range s.Pools {
		c.pool(&s.Pools[i], pools)
	}
	for i := range s.Nodes {
		c.node(&s.Nodes[i], pools, nodes)
	}
	for i := range s.Pods {
		c.pod(&s.Pods[i], nodes, pods)
	}
	return errors.Join(c.errs...)
}

type checker struct{ errs []error }

func (c *checker) add(path, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
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
	c.cards(path+".template", p.Template.Cards)
}

func (c *checker) node(n *Node, pools, seen map[string]bool) {
	path := "nodes[" + n.Name + "]"
	c.name(path, n.Name, seen)
	if n.Pool != "" && !pools[n.Pool] {
		c.add(path+".pool", "there is no pool %q", n.Pool)
	}
	c.notNegative(path+".cpuMilli", n.CPUMilli)
	c.notNegative(path+".memoryMi", n.MemoryMi)
	c.cards(path, n.Cards)
	if a := n.Allocatable; a != nil {
		c.notNegative(path+".allocatable.cards", int64(a.Cards))
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
}

func (c *checker) cards(path string, cards []Card) {
	seen := map[int]bool{}
	for i := range cards {
		card := &cards[i]
		at := fmt.Sprintf("%s.cards[%d]", path, card.Index)
		if seen[card.Index] {
			c.add(at, "is there twice")
		}
		seen[card.Index] = true
		c.instances(at, card)
	}
}

func (c *checker) instances(path string, card *Card) {
	if !card.MIG && len(card.Instances) > 0 {
		c.add(path, "has instances without MIG")
	}
	if card.MIG && len(card.Holders) > 0 {
		c.add(path, "has holders of the whole card with MIG")
	}
	var l mig.Layout
	for _, i := range card.Instances {
		if i.Placed {
			l = append(l, i.Placement)
		}
	}
	t, ok := mig.ForModel(card.Model.Name)
	if !ok || len(l) == 0 {
		return
	}
	if err := t.Legal(mig.NewLayout(l...)); err != nil {
		c.add(path+".instances", "%v", err)
	}
}

func (c *checker) pod(p *Pod, nodes, seen map[string]bool) {
	path := "pods[" + p.Key() + "]"
	c.name(path, p.Key(), seen)
	if p.Node != "" && !nodes[p.Node] {
		c.add(path+".node", "there is no node %q", p.Node)
	}
	c.notNegative(path+".cpuMilli", p.CPUMilli)
	c.notNegative(path+".memoryMi", p.MemoryMi)
	c.notNegative(path+".demand.cards", int64(p.Demand.Cards))
	for _, i := range p.Demand.MIG {
		if i.Count <= 0 {
			c.add(path+".demand.mig["+i.Name+"]", "count is %d", i.Count)
		}
		n, err := mig.ParseName(i.Name)
		if err != nil {
			c.add(path+".demand.mig", "%v", err)
		} else if n.Compute != i.Profile.Compute || n.Attrs != i.Profile.Attrs || i.Profile.Memory != 0 || n.GB != i.MemoryGB {
			c.add(path+".demand.mig["+i.Name+"]", "is not what its name says: %s, %d GB", i.Profile, i.MemoryGB)
		}
	}
}
