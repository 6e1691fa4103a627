// Package story reads the YAML files that a sandbox plays: the fleet, the workloads, the traffic and the
// expectations. It also checks the expectations while the sandbox runs. It does not depend on a cluster.
//
// A layout lists for each GPU of a node how many MIG devices of each profile it has. A single entry is for
// all GPUs. A pool's layout is for its new nodes, and a node can have its own layout. Durations are wall time
// from the start of the traffic, except traffic.length, which is traffic time. sandbox/e2e/testdata/demo.yaml
// is an example.
package story
