// Package observe turns the cluster's state and Prometheus' samples into a plan.Snapshot. It owns
// how pods, nodes and series are read, which values are fresh, and since when a GPU has been free.
// What cannot be known is marked unknown: a missing series is never a free GPU and never a missing
// GPU; a node's offer comes from the API alone. The package only reads.
//
// Observe (observe.go) has the order of it all, and the state that outlives a reconcile. What it calls, in that order:
//
//   - pool.go: what the provider of each pool says, and so the pools;
//   - offers.go: what DRA's drivers offer on nodes;
//   - node.go (readNode): what a Node says by itself. asgpus.go and sharing.go have the GPUs that are offered in parts;
//   - convert.go: all pods, and those that are still to be made, which package gangs finds. Package ledger has the quota of each.
//     Of one pod, pods.go has its demand (claims.go, devicerequest.go and selectors.go by resource claims, others.go by
//     resources that are no GPUs), rules.go its rules about other pods, volumes.go and datasets.go where its data is;
//   - requests.go, forecasts.go: the pods of ProvisioningRequests, the replicas that are forecast, and HPAs;
//   - budgets.go: which pods may be evicted, and when;
//   - node.go (addNodes): the nodes with their GPUs. gpus.go chooses whom to believe about these: the exporter (readings.go),
//     claims, the pods (allocations.go), the node's agent (report.go), or mig-manager's configuration;
//   - learned.go: what a new node of a pool will be, by those that it has; daemons.go which pods of DaemonSets it will have;
//   - allocator.go: which nodes have no devices for the claims of pending pods;
//   - outside.go: the pods and nodes beside all that, as far as rules of pods are about them.
//
// limits.go bounds what a namespace can have it read. In the background prometheus.go queries, package foreign and
// controller-runtime watch, and trim.go is what the cache keeps.
package observe
