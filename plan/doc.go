// Package plan decides what should be done: a pure function from a Snapshot of
// the cluster and a Policy to a Plan. It has no context, clock, logger, error,
// goroutine or shared pointer; time and history are data. It never acts.
//
// To read it, begin with what goes in and comes out: snapshot.go, policy.go, state.go,
// plan.go, reasons.go; check.go and contain.go are for invalid snapshots. Then read
// make.go, whose decide has the stages, and the types of the working copy: world.go,
// conditions.go, fleet.go, queue.go, kind.go, actions.go.
//
// The stages follow in the order of decide:
//   - supply: supply.go, facts.go, upcoming.go
//   - admission: quota.go, amount.go
//   - what the scheduler can place, and the order of the rest: place.go
//   - the cheapest option of a pod: serve.go, then scaleup.go and expander.go for new
//     nodes, repartition.go and split.go for GPUs, reclaim.go, victims.go and loss.go
//     for evictions
//   - several pods, all or none: gang.go, domain.go and together.go, as trials of journal.go
//   - forecasts: headroom.go
//   - scale down: scaledown.go, drain.go, consolidate.go, sick.go, idle.go
//
// Whether a pod fits a node is in fit.go (selectors, taints), topology.go and spread.go
// (rules), capacity.go, gpuparts.go and ports.go (resources); index.go finds
// the node. verdict.go, whynot.go and explain.go make the texts.
// docs/internals/003-planner.md has the reasons.
package plan
