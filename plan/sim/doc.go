// Package sim is a small world for plans to act on: it applies Actions with
// the delays a pool has learned, schedules pods, gangs all or none, evicts and
// lets pods leave, and lets repartitions fail when told to. It is strict: an
// action whose precondition does not hold is an error. It is deterministic, has
// no clock of its own, and never decides anything.
//
// An evicted pod leaves at once and is back at the same instant under its own
// name, waiting. A node that is removed or replaced is gone at once; a new one
// comes when its pool's ReadyAfter has passed.
package sim
