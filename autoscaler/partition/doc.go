// Package partition changes the layout of MIG GPUs: through the GPU Operator's mig-manager (a named
// config in a ConfigMap, a node label that selects it, a label that answers) or through gpuscale's
// agent on the node. It owns the config's format and names, and derives the phase of an operation from
// its node (package contract). Every write is small, idempotent and leaves the whole state on the node.
// The package never decides what to change, and never touches a pod.
package partition
