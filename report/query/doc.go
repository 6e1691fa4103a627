// Package query knows what the report asks Prometheus: the PromQL of every
// figure, over which window and in what steps, and how it is cut into pieces that
// a server answers within its limits. It reads and never judges: what the numbers
// mean is for the packages ledger and model to say.
package query
