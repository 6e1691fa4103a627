// Package agent is what the exporter does on its node beside serving metrics:
// it lets go of cards on request, from a local socket or an annotation of the
// node, and tells Kubernetes of the node's health by a condition and Events.
// All of it is off unless asked for. Of the Kubernetes API it reaches its own
// Node and that Node's Events and nothing else: it lists nothing, and watches
// one object. It decides neither when a card is repartitioned nor whether a
// card is healthy.
package agent
