// Package act carries out a plan. Each verb has a file and is a short series of
// idempotent writes; after each write the API server holds the whole state, so that
// an interrupted action can be continued. Before it writes, act reads the objects
// again and refuses an action whose snapshot is out of date. It makes no decisions.
package act
