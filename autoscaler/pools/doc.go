// Package pools makes and removes the nodes of a GPUNodePool. It owns what a
// new node of a pool looks like and how each provider is asked for one. A node
// is removed by its identity, never by lowering a count, and sizes are absolute:
// asking twice does it once. It never decides how many nodes there should be.
package pools
