// Package machines simulates the machines of the pool provider. A Node object in one of the story's pools
// gets a machine after a boot delay, and loses it when the object is deleted. The package owns the parts of a
// machine: host software (world/node), GPUs (world/device), the PodResources socket, the state file of the
// DCGM fake and an exporter process. It never creates or deletes a Node by itself.
package machines
