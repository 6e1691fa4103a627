// Package provider answers the metrics APIs (custom.metrics.k8s.io and
// external.metrics.k8s.io) from the cache's tables. It owns the mapping from
// objects to pods, the errors for missing values, and which namespace a request
// may read. It never queries Prometheus, never lists from the API server on the
// request path, and never replaces a missing value with a number.
package provider
