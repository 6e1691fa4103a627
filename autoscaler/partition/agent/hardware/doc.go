// Package hardware reads and changes the MIG layout of a node's cards through
// NVML. It owns what the driver's answers mean: which instance is where, who uses
// it, which of its errors is a card that fell off, a busy instance or a driver
// that hangs. It changes what it is told to, one instance at a time, and decides
// nothing. It holds the driver open during a call only, so that it is in nobody's
// way when the driver is replaced.
package hardware
