// Package compat reads a prometheus-adapter configuration file unchanged and
// answers what v0.12.0 would answer. It owns the file's format, its discovery
// of series, its template language and the metrics APIs over both; where
// v0.12.0 is wrong it differs, and docs/adapter-compat.md lists how. It never
// serves metrics.k8s.io, never asks Prometheus on the path of a request that
// one query for all objects can answer, and lets no request write PromQL.
package compat
