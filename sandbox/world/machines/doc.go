// Package machines plays the machine side of the pool provider: a Node object
// in one of the story's pools gets a machine after a boot delay and loses it when
// the object goes. It owns what a machine has: host software (world/node), GPUs
// (world/device), the PodResources socket, the state file of the DCGM fake and an
// exporter process. It never creates or deletes a Node of its own accord.
package machines
