// Package agent is what the exporter does on its node beside serving metrics:
// it releases GPUs on request, from a local socket or an annotation of the
// node, and reports the node's health to Kubernetes by a condition and Events.
// All of it is off by default. Of the Kubernetes API it uses only its own Node
// and that Node's Events: it lists nothing, and watches one object. It decides
// neither when a GPU is repartitioned nor whether a GPU is healthy.
package agent
