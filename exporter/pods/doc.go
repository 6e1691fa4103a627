// Package pods resolves device allocations to the GPUs and instances of a
// Reading. Its sources are the kubelet's PodResources v1 socket, on its own
// clock; where flags request it the API server, for this node's pods and
// ResourceSlices, by a field selector and never by a watch; and the driver's
// values per process, which /proc maps to containers. It owns the last good
// answers and their lifetime. It never lists the cluster, and what is ambiguous
// is not attributed.
package pods
