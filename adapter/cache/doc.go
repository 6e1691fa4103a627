// Package cache keeps the newest answer to each question: a rule's own, or one
// that a request introduced. It asks Prometheus about the namespaces from which
// requests come, many in one query, off the request path and whatever
// the number of requests; readers get an immutable state. What is wrong in one
// namespace concerns that namespace only. It knows nothing of Kubernetes and never
// changes a value.
package cache
