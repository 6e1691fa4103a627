// Package pods asks who holds which device and resolves the answers to the
// cards and instances of a Reading: the kubelet over its PodResources v1 socket,
// on its own clock; where flags ask for it the API server for this node's pods
// and ResourceSlices, by a field selector and never by a watch; and the driver
// for what each process does, which /proc tells to be a container's. It owns
// the last good answers and for how long they may be used. It never lists the
// cluster and never invents a holder: what nobody can tell is not attributed.
package pods
