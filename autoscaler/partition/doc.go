// Package partition changes the layout of MIG cards through the GPU Operator's
// mig-manager: a named config in a ConfigMap, a node label that selects it, a
// label that answers. It owns the config's format and names, the annotation
// that records an operation under way on the node it concerns, and what the
// labels mean. Every write is small, idempotent and leaves the whole state on
// the node. It never decides what to change, and never touches a pod.
package partition
