// Package sim is a simulated cluster for plans to act on: it applies Actions
// with the durations observed for a pool, schedules pods, gangs all or none,
// evicts and ends pods, and fails repartitions on request. An action whose
// precondition does not hold is an error. It is deterministic, has no clock of
// its own, and never decides anything.
//
// An evicted pod ends at once and is pending at the same instant under the same
// name. A node that is removed or replaced is gone at once; a new one is ready
// after its pool's ReadyAfter.
package sim
