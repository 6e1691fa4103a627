// Package compat reads a prometheus-adapter configuration file unchanged and answers like
// v0.12.0. It uses v0.12.0's own packages for the file's fields and for mapping series to
// names and resources. It owns the discovery of series, the template language and the metrics
// APIs over both. Where v0.12.0 is wrong it differs: docs/internals/adapter-compat.md lists
// the differences. It never serves metrics.k8s.io. On the path of a request it sends no query
// if one query for all objects can answer. It never puts a request's text into PromQL
// unquoted.
package compat
