// Package compat reads a prometheus-adapter configuration file unchanged and
// answers like v0.12.0, whose own packages have the file's fields and map series to names and
// resources. It owns the discovery of series, the template language and the metrics
// APIs over both. Where v0.12.0 is wrong it
// differs: docs/internals/adapter-compat.md lists the differences. It never serves
// metrics.k8s.io, never queries Prometheus on the path of a request that one
// query for all objects can answer, and never puts a request's text into PromQL
// unquoted.
package compat
