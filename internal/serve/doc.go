// Package serve is the HTTP server of every gpuscale program: a listener with an
// understandable error, /metrics, /livez, /readyz, and a graceful shutdown. It
// owns sockets, timeouts, TLS and basic auth. It decides nothing about health:
// the program reports that through Ready and Live.
package serve
