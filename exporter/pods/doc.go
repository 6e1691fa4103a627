// Package pods resolves device allocations to the GPUs and instances of a
// Reading. Its main source is the kubelet's PodResources v1 socket, on its own
// clock. If flags request it, it also reads this node's pods and ResourceSlices
// from the API server (by a field selector, never by a watch) and the driver's
// values per process, which /proc maps to containers. It owns the last good
// answers and their lifetime. It never lists the cluster, and it attributes
// nothing that is ambiguous.
package pods
