// Package observe turns the cluster's state and Prometheus' samples into a plan.Snapshot. It owns
// how pods, nodes and series are read, which values are fresh, and since when a GPU has been free.
// What cannot be known is marked unknown: a missing series is never a free GPU and never a missing
// GPU; a node's offer comes from the API alone. The package only reads.
//
// Observe (observe.go) runs all steps and keeps the state that outlives a reconcile. It calls, in this order:
//
//   - pool.go: the pools, as their providers list them;
//   - offers.go: the devices that DRA drivers offer on nodes;
//   - node.go (readNode): what a Node object alone states. asgpus.go and sharing.go read GPUs that are offered in
//     parts;
//   - convert.go: the pods that exist, and those still to be created, which package gangs finds. Package ledger finds
//     the quota of each. For one pod, pods.go reads the demand (claims.go, devicerequest.go and selectors.go from
//     resource claims, others.go the resources that are no GPUs), rules.go its rules about other pods, volumes.go and
//     datasets.go where its data is;
//   - requests.go, forecasts.go: the pods of ProvisioningRequests, the replicas that are forecast, and HPAs;
//   - budgets.go: which pods may be evicted, and when;
//   - node.go (addNodes): the nodes with their GPUs. gpus.go chooses the source for each GPU: the exporter
//     (readings.go), claims, the pods (allocations.go), the node's agent (report.go), or mig-manager's configuration;
//   - learned.go: what a new node of a pool will have, by the pool's present nodes; daemons.go: its pods of DaemonSets;
//   - allocator.go: which nodes have no devices for the claims of pending pods;
//   - outside.go: the other pods and nodes that topology rules concern.
//
// limits.go bounds what is read for one namespace. In the background prometheus.go queries, and package foreign and
// controller-runtime watch; trim.go decides which fields the cache keeps.
package observe
