// Package observe turns the cluster's state and Prometheus' samples into a plan.Snapshot. It owns
// how pods, nodes and series are read, which values are fresh, and since when a GPU has been free.
// What cannot be known is marked unknown: a missing series is never a free GPU and never a missing
// GPU; a node's offer comes from the API alone. The package only reads.
package observe
