// Package pods asks the kubelet who holds which device, over the PodResources
// v1 socket, on its own clock, and resolves the device ids of every device
// plugin dialect to the cards and instances of a Reading. It owns the last good
// answer and for how long that may be used. It never asks the API server and
// never invents a holder.
package pods
