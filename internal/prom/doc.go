// Package prom asks a Prometheus-compatible server (Prometheus, Thanos, Mimir,
// VictoriaMetrics) questions over its HTTP API. It owns transport,
// credentials, limits and errors. It knows no metric by name, never judges a
// value (NaN and infinities pass through), never retries and never caches.
package prom
