// Package capacity counts: what GPUs there are and what state every slice of
// them is in (Survey, Supply), what pending pods request (Pending), which slices
// serve no pod as things are and why (Stranded), and where every GPU-hour
// went (Ledger). Each slice of a GPU is in exactly one state, and each moment of
// it in exactly one place of the ledger, so that the sums are the capacity to the
// last unit. It is pure: no clock, no I/O. It never decides what should be done.
package capacity
