// Package memstore is Prometheus's own query engine over series in memory: for
// tests, and for the doubles of Prometheus that have to evaluate. It never
// scrapes, never writes a file and serves no HTTP; promtest is the server whose
// answers a test writes down.
package memstore
