// Package provider answers the metrics APIs (custom.metrics.k8s.io and
// external.metrics.k8s.io) from the cache's tables. It owns which pods an
// object stands for, what a missing value looks like to the HPA, and which
// namespace a request may read. It never asks Prometheus, never lists from
// the API server on the request path, and never fills a gap with a number.
package provider
