// Package gpu defines a GPU model, a device on a node and its health, for all
// other packages. It never accesses a driver, a cluster or a clock.
package gpu
