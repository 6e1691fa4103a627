// Package cache keeps the newest answer to each question: a rule's own, or one
// that a request introduced. It queries Prometheus about the namespaces that
// requests come from, many in one query, off the request path and independent of
// the number of requests. Readers get an immutable state. A fault in one namespace
// affects that namespace only. The package knows nothing of Kubernetes and never
// changes a value.
package cache
