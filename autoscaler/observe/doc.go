// Package observe turns what the cluster and Prometheus say into a
// plan.Snapshot. It owns how pods, nodes and series are read, what counts as
// fresh, and since when a card has been free. What it cannot know it marks as
// unknown: a missing series is never an empty card, and never a missing one: what
// a node offers comes from the API alone. It only reads.
package observe
