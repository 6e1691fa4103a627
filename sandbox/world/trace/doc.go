// Package trace reads and makes request traces: when a request arrives, how
// long its prompt is and how long its answer will be. It owns the Azure LLM
// inference CSV format and a seeded synthetic generator. It never plays a
// trace and knows no clock: times are offsets from the first request.
package trace
