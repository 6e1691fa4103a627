// Package promfault is a Prometheus that lies on demand. A [Proxy] stands in
// front of a real one and spoils its answers, or gives none; a [Page] is what
// that real one scrapes, and spoils the samples before they are stored. What a
// fault does in the world decides where it belongs: a target that reports NaN
// is scraped, a Thanos that lost a store answers with a warning. It asserts
// nothing and knows no adapter.
package promfault
