// Package cache keeps the newest answer to each rule. It asks Prometheus one
// query per active rule and interval, off the request path, whatever the
// number of requests; readers get an immutable table. It knows nothing of
// Kubernetes and never changes a value.
package cache
