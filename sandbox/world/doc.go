// Package world builds and runs a story's world around a real control plane:
// it compiles the programs, creates what the story says (pools, nodes,
// workloads), starts our programs and the doubles, tells Prometheus where they
// are, and ties simulated servers to pods and to the cards those pods hold.
// Doubles live in the packages below it. It never decides what is true or
// drawn: sandbox/watch measures, sandbox/view draws.
package world
