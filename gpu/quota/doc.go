// Package quota is the arithmetic of shared capacity: amounts in slices that
// saturate instead of overflowing, and a tree of tenants with what each is
// guaranteed, may use, may borrow and lends. It computes what is available, and
// adds and removes usage. It has no pods, priorities or cluster, and never decides.
package quota
