// Package explain says what an HPA asks the adapter, what the adapter answers
// and from which samples, and what the HPA makes of it; now, or over a past
// range as a simulation. It reads the API server and Prometheus and writes to
// neither. It asks Prometheus itself, with the adapter's own rules and tables,
// so it works where no adapter runs.
package explain
