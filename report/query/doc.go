// Package query contains the report's queries: the PromQL of every figure, its time range and steps, and how
// it is split into pieces within the server's limits. It reads numbers; packages ledger and model interpret
// them.
package query
