// Package plan decides what should be done: a pure function from a Snapshot of
// the cluster and a Policy to a Plan. It has no context, clock, logger, error,
// goroutine or shared pointer; time and history are data. It never acts.
package plan
