// Package capacity counts: what cards there are and what state every slice of
// them is in (Survey, Supply), who wants and holds them (Demand), which slices
// serve nobody as things are and why (Stranded, Room), and where every GPU-hour
// went (Ledger). Each slice of a card is in exactly one state, and each moment of
// it in exactly one place of the ledger, so that the sums are the capacity to the
// last unit. It is pure: no clock, no I/O. It never decides what should be done.
package capacity
