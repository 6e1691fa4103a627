// Package trace reads and generates request traces: when each request arrives, how long its prompt is and how
// long its answer will be. It owns the Azure LLM inference CSV format and a seeded synthetic generator. It
// plays no trace and has no clock: times are offsets from the first request.
package trace
