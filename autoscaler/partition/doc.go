// Package partition changes the layout of MIG cards: through the GPU Operator's
// mig-manager (a named config in a ConfigMap, a node label that selects it, a
// label that answers) or through our own agent on the node (package agent). It
// owns the config's format and names, the annotation that records an operation
// under way on the node it concerns, what the labels and the agent's answer mean,
// and what nodes publish of their cards: reports of layouts and tables of
// products. Every write is small, idempotent and leaves the whole state on the
// node. It never decides what to change, and never touches a pod.
package partition
