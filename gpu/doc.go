// Package gpu says what the things are: a model of GPU, a device on a node,
// its health. It owns the words the rest of the house uses and never talks to
// a driver, a cluster or a clock.
package gpu
