// Package query has the report's queries: the PromQL of every figure, its window and
// steps, and its split into pieces that a server answers within its limits. It reads
// numbers; packages ledger and model interpret them.
package query
