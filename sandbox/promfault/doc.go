// Package promfault is a Prometheus with faults on demand. A [Proxy] forwards to a
// real one and changes its answers, or gives none; a [Page] is scraped by that
// real one, and changes the samples before they are stored. A fault belongs where
// it arises in production: a target that reports NaN is scraped, a Thanos that
// lost a store answers with a warning. The package asserts nothing and knows no
// adapter.
package promfault
