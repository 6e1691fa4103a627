// Package plan decides what should be done: a pure function from a Snapshot of
// the cluster and a Policy to a Plan. It has no context, clock, logger, error,
// goroutine or shared pointer; time and history are data. It never acts.
//
// To read it, begin with what goes in and comes out (snapshot.go, policy.go, state.go,
// plan.go, reasons.go), then make.go, whose decide has the stages, and world.go with the
// types that own the working copy. Of the stages place.go and serve.go are the middle: what
// is left to the scheduler, and how the cheapest option of a pod is found; gang.go and domain.go
// do so for several pods, all or none of them, as trials of journal.go.
// docs/internals/003-planner.md has the files of each stage and the reasons.
package plan
