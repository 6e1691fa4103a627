// Package explain says to people what the autoscaler decided about a pod, a
// gang or a pool, why, and what would have to change: as text, as JSON and in
// one line of an Event. It plans a snapshot again, with the planner's own code,
// and tries each change it proposes in the same way; it asks no cluster and
// decides nothing.
package explain
