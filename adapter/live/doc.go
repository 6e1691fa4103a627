// Package live owns the configuration in force: it reads the file again when
// its contents change, keeps the last good version of what has become bad, and
// says what became of each rule. It serves nothing and asks no Prometheus
// anything; it hands clients and rules to the cache.
package live
