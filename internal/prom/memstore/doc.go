// Package memstore is Prometheus's own query engine over series in memory: for
// tests, and for fakes of Prometheus that evaluate queries. It never scrapes,
// never writes a file and serves no HTTP; promtest is a server with scripted
// answers.
package memstore
