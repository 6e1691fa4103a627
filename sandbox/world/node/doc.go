// Package node is the fake of one GPU node's host software: the kubelet's
// device manager and its PodResources socket, NVIDIA's device plugin, GPU
// feature discovery and mig-manager. It owns which pod holds which device and
// the node's labels and status, and it follows the real ones in their
// faults too: a plugin that restarts advertises nothing, mig-manager fails on
// a busy GPU and acts only on a change of its label. Machine is the pure
// part and takes the time as an argument; Agent ties it to a cluster. It never
// decides anything about the fleet.
package node
