// Package watch measures what happens in a sandbox: from the cluster, from
// Prometheus, from Events. It owns what a story's expectations, the live view
// and the summary call a number, and it makes none up: what it could not
// measure is unknown. It changes nothing.
package watch
