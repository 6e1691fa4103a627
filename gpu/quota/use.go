package quota

import "slices"

// use is what one node's tenant uses.
type use struct {
	own   Amount
	total Amount // own and the children's
	drawn Amount // taken from share: own, and what the children draw beyond what they keep
	above Amount // taken from the guarantee: own, and what the children use beyond theirs
}

// Used returns what a tenant itself uses, its children not counted; nothing for
// an unknown tenant.
func (t Tree) Used(name string) Amount {
	if i := t.index(name); i >= 0 {
		return t.used[i].own
	}
	return Amount{}
}

// Total returns what a tenant and all below it use.
func (t Tree) Total(name string) Amount {
	if i := t.index(name); i >= 0 {
		return t.used[i].total
	}
	return Amount{}
}

// Borrowed returns what a tenant and its children use beyond what they are
// guaranteed.
func (t Tree) Borrowed(name string) Amount {
	if i := t.index(name); i >= 0 {
		return t.over(i)
	}
	return Amount{}
}

// Covered reports whether what a tenant uses is within its own guarantee and those of the tenants above it, so that
// no other tenant lends any of it.
func (t Tree) Covered(name string) bool {
	for i := t.index(name); i >= 0; i = t.nodes[i].parent {
		if t.used[i].above.Fits(t.nodes[i].Guarantee) {
			return true
		}
	}
	return false
}

// Available returns how much more a tenant may use now, without a reclaim: nothing
// for an unknown tenant, never negative.
func (t Tree) Available(name string) Amount {
	if i := t.index(name); i >= 0 {
		return t.available(i).Floor()
	}
	return Amount{}
}

// Add adds a to a tenant's use; false where it is not available, or the tenant is unknown.
func (t Tree) Add(name string, a Amount) (Tree, bool) {
	i := t.index(name)
	if i < 0 || a.Negative() || a.endless() {
		return t, false
	}
	// A zero part is never refused: memory may be overdrawn while only compute is
	// requested.
	free := t.available(i).Floor()
	if a.Compute > 0 && a.Compute > free.Compute || a.Memory > 0 && a.Memory > free.Memory {
		return t, false
	}
	return t.change(i, a), true
}

// Force adds a to a tenant's use, available or not: it is for what a tenant uses already.
// It returns the tree itself for an unknown tenant or an impossible amount.
func (t Tree) Force(name string, a Amount) Tree {
	i := t.index(name)
	if i < 0 || a.Negative() || a.endless() {
		return t
	}
	return t.change(i, a)
}

// Remove takes a off a tenant's use; false where it uses less, or is unknown.
func (t Tree) Remove(name string, a Amount) (Tree, bool) {
	if i := t.index(name); i >= 0 && !a.Negative() && a.Fits(t.used[i].own) {
		return t.change(i, Amount{}.Sub(a)), true
	}
	return t, false
}

// change adds a to what node i uses and carries it up to the root.
func (t Tree) change(i int, a Amount) Tree {
	t.used = slices.Clone(t.used)
	own, drawn, above := a, a, a
	for i >= 0 {
		n, u := &t.nodes[i], *t.used[i]
		wasDrawn, wasAbove := u.drawn.Sub(n.kept).Floor(), u.above.Sub(n.Guarantee).Floor()
		u.own, u.total, u.drawn, u.above = u.own.Add(own), u.total.Add(a), u.drawn.Add(drawn), u.above.Add(above)
		drawn, above = u.drawn.Sub(n.kept).Floor().Sub(wasDrawn), u.above.Sub(n.Guarantee).Floor().Sub(wasAbove)
		t.used[i] = &u
		own, i = Amount{}, n.parent
	}
	return t
}

// over returns what node i draws beyond its share, from its parent.
func (t Tree) over(i int) Amount { return t.used[i].drawn.Sub(t.nodes[i].share).Floor() }

// available is what node i can still draw within all limits up to the root. It is
// negative where more is used than allowed.
func (t Tree) available(i int) Amount {
	free := t.drawable(i)
	for ; i >= 0; i = t.nodes[i].parent {
		free = free.Min(t.nodes[i].Limit.Sub(t.used[i].total))
	}
	return free
}

// drawable is what node i keeps and does not use, plus what it can draw from its
// parent: first what it has lent to the parent, then what it may borrow.
func (t Tree) drawable(i int) Amount {
	n, drawn := &t.nodes[i], t.used[i].drawn
	if n.parent < 0 {
		return n.share.Sub(drawn)
	}
	bound := n.lent.Add(n.Borrow).Sub(drawn.Sub(n.kept).Floor())
	above := t.drawable(n.parent).Min(bound).Floor()
	return n.kept.Sub(drawn).Floor().Add(above)
}
