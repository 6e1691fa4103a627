// Package watch measures what happens in a sandbox, from the cluster, Prometheus and Events. It provides the
// numbers for a story's expectations, the live view and the summary. What it cannot measure is unknown. It
// changes nothing.
package watch
