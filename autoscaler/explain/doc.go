// Package explain explains the decision about a pod, a gang or a pool, and what would
// change it: as text, as JSON and as the note of an Event. It plans a snapshot with the
// planner's own code, and verifies each change it proposes by planning with it. It needs
// no cluster.
package explain
