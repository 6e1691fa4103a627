// Package pools makes and removes the nodes of a GPUNodePool. It owns the description of a pool's
// new node and how each provider is called. A node is removed by its identity, never by lowering a
// count, and sizes are absolute, so calls are idempotent. The package never decides how many nodes
// there should be.
package pools
