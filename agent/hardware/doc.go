// Package hardware reads and changes the MIG layout of a node's GPUs through NVML. It owns the
// meaning of the driver's answers: which instance is where, which process uses it, and which error
// is a lost GPU, a busy instance or a hanging driver. It makes the requested changes, one instance
// at a time, and decides nothing. It keeps the driver open only during a call, so that it does not
// block a driver update.
package hardware
