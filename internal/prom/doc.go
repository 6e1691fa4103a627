// Package prom queries a Prometheus-compatible server (Prometheus, Thanos, Mimir,
// VictoriaMetrics) over its HTTP API. It owns transport, credentials, limits and
// errors. It knows no metric by name, never judges a value (NaN and infinities
// are returned), never retries and never caches.
package prom
