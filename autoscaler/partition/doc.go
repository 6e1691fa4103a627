// Package partition changes the layout of MIG GPUs: through the GPU Operator's mig-manager (a named
// config in a ConfigMap, a node label that selects it, a label that answers) or through gpuscale's
// agent on the node (package agent). It owns the config's format and names, the annotation that
// records an operation on its node, the meaning of the labels and of the agent's answer, and what
// nodes publish of their GPUs: reports of layouts and tables of products. Every write is small,
// idempotent and leaves the whole state on the node. The package never decides what to change, and
// never touches a pod.
package partition
