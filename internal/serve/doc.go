// Package serve is the HTTP server every program of the house runs: a listener
// with an understandable error, /metrics, /livez, /readyz, and a shutdown that
// lets requests finish. It owns sockets, timeouts, TLS and basic auth. It
// decides nothing about health: the program says so through Ready and Live.
package serve
