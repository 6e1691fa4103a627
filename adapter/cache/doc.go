// Package cache keeps the newest answer to each question: a rule's own, or one
// that a request introduced. It sends Prometheus one query per active question
// and interval, off the request path, whatever the number of requests; readers
// get an immutable state. It knows nothing of Kubernetes and never changes a
// value.
package cache
