// Package machines plays the machine side of the pool provider: a Node object
// in one of the story's pools gets a machine after a boot delay (late or never,
// if the story says so) and loses it when the object goes. It owns what a
// machine has: host software (world/node), cards (world/card), the PodResources
// socket, the state file of the DCGM double and an exporter process. It never
// creates or deletes a Node of its own accord.
package machines
