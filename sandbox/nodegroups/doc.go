// Package nodegroups makes nodes of pools as Node objects that KWOK manages. It works in two ways: inside the
// autoscaler's process (Maker implements pools.Provider), or as a provider of cluster-autoscaler's external
// gRPC protocol (Serve), which the autoscaler uses like any other. The package owns what such a node looks
// like.
package nodegroups
