// Package explain shows an HPA's requests, the adapter's answers and their
// samples, and the resulting replicas; now, or over a past range as a
// simulation. It reads the API server and Prometheus and writes to neither. It
// queries Prometheus itself, with the adapter's own rules and tables, so it
// needs no running adapter.
package explain
