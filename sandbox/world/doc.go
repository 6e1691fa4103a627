// Package world builds and runs a story's world around a real control plane. It compiles the programs,
// creates the story's objects (pools, nodes, workloads), starts our programs and the fakes, adds them to
// Prometheus' targets, and connects simulated servers with pods and the GPUs allocated to them. The fakes are
// in the packages below it. It neither measures nor draws: sandbox/watch measures, sandbox/view draws.
package world
