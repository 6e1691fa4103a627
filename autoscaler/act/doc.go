// Package act carries out a plan: one verb a file, each a short series of small
// idempotent writes, in an order that leaves the whole state in the API server
// whenever it is cut short. Before it writes it looks again: what the plan was
// made on must still be true. It never decides, and never repairs a decision.
package act
