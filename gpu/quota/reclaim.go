package quota

import (
	"cmp"
	"slices"
)

// Claim is what a tenant must give back of what it borrowed.
type Claim struct {
	Tenant string
	Amount Amount
}

// Reclaim says who must give back how much so that a tenant can use want more of
// what it is guaranteed. Want beyond the guarantee is not claimed: nobody has a
// right to borrow. Those who borrow most come first, then by name, and nobody is
// asked for more than it borrows. Which of a tenant's pods go is not decided here.
func (t Tree) Reclaim(name string, want Amount) []Claim {
	i := t.index(name)
	if i < 0 {
		return nil
	}
	entitled := t.nodes[i].Guarantee.Sub(t.used.at(i).own).Floor()
	r := reclaimer{tree: t, target: i, want: want.Min(entitled).Floor()}
	for below, at := -1, i; at >= 0; below, at = at, t.nodes[at].parent {
		r.from(at, below, at != i)
	}
	return r.claims
}

type reclaimer struct {
	tree   Tree
	target int
	want   Amount
	claims []Claim
}

// missing is what must still be given back until the target has what it wants:
// more than that where more runs than may.
func (r *reclaimer) missing() Amount {
	lack := r.tree.lack(r.target, r.want)
	for i := r.target; i >= 0; i = r.tree.nodes[i].parent {
		over := r.want.Sub(r.tree.nodes[i].Limit.Sub(r.tree.used.at(i).total))
		lack = lack.Max(over)
	}
	return lack.where(r.want)
}

// lack is by how much node i cannot draw want, limits apart: available, asked the
// other way round and not stopping at zero.
func (t Tree) lack(i int, want Amount) Amount {
	n, drawn := &t.nodes[i], t.used.at(i).drawn
	if n.parent < 0 {
		return want.Sub(n.share.Sub(drawn)).Floor().where(want)
	}
	need := want.Sub(n.kept.Sub(drawn).Floor()).Floor()
	bound := n.lent.Add(n.Borrow).Sub(drawn.Sub(n.kept).Floor())
	return need.Sub(bound).Floor().where(need).Max(t.lack(n.parent, need))
}

// from claims from what node at itself draws beyond its guarantee, and from its
// children that draw beyond theirs, all but one.
func (r *reclaimer) from(at, except int, own bool) {
	if own {
		r.claim(at, r.tree.used.at(at).own.Sub(r.tree.nodes[at].Guarantee).Floor())
	}
	children := slices.Clone(r.tree.nodes[at].children)
	slices.SortStableFunc(children, func(a, b int) int {
		x, y := r.tree.over(a), r.tree.over(b)
		return cmp.Or(cmp.Compare(y.Compute, x.Compute), cmp.Compare(y.Memory, x.Memory))
	})
	for _, c := range children {
		if c != except && !r.tree.over(c).Zero() && !r.missing().Zero() {
			r.inside(c, r.tree.over(c).Min(r.missing()))
		}
	}
}

// inside claims up to a from node c and below.
func (r *reclaimer) inside(c int, a Amount) {
	own := r.tree.used.at(c).own.Sub(r.tree.nodes[c].Guarantee).Floor().Min(a)
	r.claim(c, own)
	a = a.Sub(own)
	for _, below := range r.tree.nodes[c].children {
		part := r.tree.over(below).Min(a)
		if !part.Zero() {
			r.inside(below, part)
			a = a.Sub(part)
		}
	}
}

// claim takes a, as far as it is missing, from what node i uses.
func (r *reclaimer) claim(i int, a Amount) {
	a = a.Min(r.missing())
	if a.Zero() {
		return
	}
	r.tree = r.tree.change(i, Amount{}.Sub(a))
	r.claims = append(r.claims, Claim{Tenant: r.tree.nodes[i].Name, Amount: a})
}
