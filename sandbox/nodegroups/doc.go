// Package nodegroups makes the nodes of pools as Node objects that KWOK plays: in the autoscaler's process
// (Maker implements pools.Provider), or as a provider of cluster-autoscaler's external gRPC protocol
// (Serve), which the program knows as any other. It owns what such a node looks like.
package nodegroups
