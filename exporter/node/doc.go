// Package node is one node's exporter without its process: a source is sampled
// on one clock, the kubelet asked on another, both are joined into a page, and
// scrapes render the page. It owns these goroutines, readiness and the
// self-metrics. A scrape never waits for a driver or a kubelet. It parses no
// flag and opens no port, so many nodes can live in one process.
package node
