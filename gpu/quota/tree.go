package quota

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Tenant is one node of the tree. Guarantee is its own, not counting what its
// children have; the tree's capacity is the sum of all guarantees. A bound of All()
// is no bound.
type Tenant struct {
	Name      string
	Parent    string // empty for a root
	Guarantee Amount // always available to it, at the latest after a reclaim
	Limit     Amount // most that it and its children may use; at least their guarantees
	Borrow    Amount // most that it may use beyond what it and its children are guaranteed
	Lend      Amount // most of its and its children's guarantees that others may use while they are idle
}

// Tree is tenants and what they use. It is a value: Add, Remove and Force return
// a new one and leave the old unchanged, so that a planner can keep many trees and
// return to any of them.
type Tree struct {
	nodes  []node         // parents before children; shared by the trees made from one another
	byName map[string]int // index in nodes; shared too
	used   []*use         // by node; what is pointed to does not change
}

// node is a Tenant and its place in the tree.
type node struct {
	Tenant
	parent int    // index, -1 for a root
	below  Amount // guaranteed to it and its children
	share  Amount // own guarantee and what the children lend into it
	lent   Amount // of share, what it lends to its parent
	kept   Amount // of share, what it does not lend
}

// NewTree builds the tree, nothing used. The error names every tenant that is
// wrong: no name, twice the same, an unknown parent, a circle, a negative amount,
// a limit below what is guaranteed under it.
func NewTree(tenants []Tenant) (Tree, error) {
	order, err := sortTenants(tenants)
	if err != nil {
		return Tree{}, err
	}
	t := Tree{nodes: make([]node, len(order)), byName: make(map[string]int, len(order)), used: make([]*use, len(order))}
	for i, tenant := range order {
		t.nodes[i] = node{Tenant: tenant, parent: -1}
		t.byName[tenant.Name] = i
		t.used[i] = &use{}
		if tenant.Parent != "" {
			t.nodes[i].parent = t.index(tenant.Parent) // before it, since parents come first
		}
	}
	var errs []error
	for i := len(t.nodes) - 1; i >= 0; i-- {
		n := &t.nodes[i]
		n.share = n.share.Add(n.Guarantee)
		n.below = n.below.Add(n.Guarantee)
		n.lent = n.share.Min(n.Lend)
		n.kept = Amount{Compute: keep(n.share.Compute, n.lent.Compute), Memory: keep(n.share.Memory, n.lent.Memory)}
		if n.parent >= 0 {
			t.nodes[n.parent].share = t.nodes[n.parent].share.Add(n.lent)
			t.nodes[n.parent].below = t.nodes[n.parent].below.Add(n.below)
		}
		if !n.below.Fits(n.Limit) {
			errs = append(errs, fmt.Errorf("tenant %q: limit %s is below the guarantee %s", n.Name, n.Limit, n.below))
		}
	}
	return t, errors.Join(errs...)
}

// keep returns share - lent, and 0 where all is lent, even if that is unlimited.
func keep(share, lent int64) int64 {
	if lent == share {
		return 0
	}
	return sub(share, lent)
}

// sortTenants checks the tenants and puts parents before children, each level by
// name.
func sortTenants(tenants []Tenant) ([]Tenant, error) {
	var errs []error
	children := make(map[string][]Tenant)
	known := make(map[string]bool)
	for _, t := range tenants {
		switch {
		case t.Name == "":
			errs = append(errs, errors.New("a tenant has no name"))
		case known[t.Name]:
			errs = append(errs, fmt.Errorf("tenant %q: is listed twice", t.Name))
		case t.Guarantee.Negative() || t.Limit.Negative() || t.Borrow.Negative() || t.Lend.Negative():
			errs = append(errs, fmt.Errorf("tenant %q: a negative amount", t.Name))
		}
		known[t.Name] = true
		children[t.Parent] = append(children[t.Parent], t)
	}
	for _, t := range tenants {
		if t.Parent != "" && !known[t.Parent] {
			errs = append(errs, fmt.Errorf("tenant %q: no parent %q", t.Name, t.Parent))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	order := slices.Grow(byName(children[""]), len(tenants))
	for i := 0; i < len(order); i++ {
		order = append(order, byName(children[order[i].Name])...)
	}
	if len(order) < len(tenants) {
		return nil, fmt.Errorf("tenants are in a cycle of parents, or below one: %s", strings.Join(missing(tenants, order), ", "))
	}
	return order, nil
}

// missing names the tenants that are not in order, quoted and sorted.
func missing(tenants, order []Tenant) []string {
	there := make(map[string]bool, len(order))
	for _, t := range order {
		there[t.Name] = true
	}
	var names []string
	for _, t := range tenants {
		if !there[t.Name] {
			names = append(names, strconv.Quote(t.Name))
		}
	}
	slices.Sort(names)
	return names
}

func byName(tenants []Tenant) []Tenant {
	slices.SortFunc(tenants, func(a, b Tenant) int { return cmp.Compare(a.Name, b.Name) })
	return tenants
}

// Guaranteed returns what a tenant and all below it are guaranteed.
func (t Tree) Guaranteed(name string) Amount {
	if i := t.index(name); i >= 0 {
		return t.nodes[i].below
	}
	return Amount{}
}

// Within reports whether a tenant is the other or below it.
func (t Tree) Within(name, other string) bool {
	for i := t.index(name); i >= 0; i = t.nodes[i].parent {
		if t.nodes[i].Name == other {
			return true
		}
	}
	return false
}

// Full names the first tenant, from this one to the root, whose limit an additional
// amount would exceed, and that limit; empty for none.
func (t Tree) Full(name string, a Amount) (string, Amount) {
	for i := t.index(name); i >= 0; i = t.nodes[i].parent {
		if n := &t.nodes[i]; !t.used[i].total.Add(a).Fits(n.Limit) {
			return n.Name, n.Limit
		}
	}
	return "", Amount{}
}

// index finds a tenant, -1 for none.
func (t Tree) index(name string) int {
	if i, ok := t.byName[name]; ok {
		return i
	}
	return -1
}
