// Package sim is a small world for plans to act on: it applies Actions with
// the delays a pool has learned, schedules pods, and lets repartitions fail
// when told to. It is deterministic, has no clock of its own, and never
// decides anything.
package sim
