// Package story reads the YAML files that a sandbox plays: the fleet, the
// workloads, the traffic and the expectations. It also follows the
// expectations while the sandbox plays. It imports no cluster.
//
// A layout lists, for each GPU of a node, how many MIG devices of each profile
// it has; one entry stands for all GPUs. A pool's layout is that of its new
// nodes, a node's layout its own. Durations are wall time from the start of the
// traffic; only traffic.length is traffic time. sandbox/e2e/testdata/demo.yaml
// is an example.
package story
