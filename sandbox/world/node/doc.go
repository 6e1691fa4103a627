// Package node is a fake of one GPU node's host software: the kubelet's device manager with its PodResources
// socket, NVIDIA's device plugin, GPU feature discovery and mig-manager. It owns which device is allocated to
// which pod, and the node's labels and status. It reproduces the faults of the real programs too: a plugin
// that restarts advertises nothing; mig-manager fails on a busy GPU and acts only when its label changes.
// Machine is the pure part and takes the time as an argument; Agent connects it to a cluster. It decides
// nothing about the fleet.
package node
