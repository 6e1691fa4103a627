// Package promfault is a Prometheus with faults on demand. A [Proxy] forwards queries to a real Prometheus
// and changes its answers, or gives none. A [Page] is scraped by the real Prometheus; it changes samples
// before they are stored. Each fault is injected where it occurs in production: a target that reports NaN is
// scraped, and a Thanos that lost a store answers with a warning. The package asserts nothing and knows no
// adapter.
package promfault
