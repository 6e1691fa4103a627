// Package quota is the arithmetic of shared capacity: amounts in slices that
// saturate instead of overflowing, and a tree of tenants with what each is
// guaranteed, may use, may borrow and lends. It answers what is available, takes
// and gives back, and says who must return what was lent. It knows no pods, no
// priorities and no cluster, and never decides.
package quota
