// Package fit tests that the planner, and the simulator of its tests, agree with kube-scheduler about which
// nodes a pod fits on. It runs `controlplane fit`, which is the scheduler's own filters, and compares both on
// random clusters. It contains only tests.
//
// In some points the planner differs on purpose. The clusters avoid these points, or the test says so:
//
//   - A node that is not ready or cordoned is no supply, even for pods that tolerate that (docs/reasons.md: NodeUnready,
//     NodeCordoned).
//   - A pod that fits only after other pods have left waits for them, or is left to the scheduler. Pods that are leaving
//     do not count for affinity and anti-affinity (docs/internals/003-planner.md).
//   - A pool's template may state no zone or rack. Its new node is assumed to come up where it helps (same page, "What is
//     thin").
//   - A node's host label is its name. A zone that is only a label of a volume is required even of nodes without a zone.
//   - A volume that several nodes may use takes none of a driver's places on a node. A volume that several pods of a node
//     use takes a place for each pod.
//   - Several claims of one pod may be given the same available volume.
//   - Storage capacity by topology is not read.
//   - A claim's tolerations of device taints count only if the claim requires more of its devices than their number.
//     Requests that share a device (consumable capacity) count as equal shares of it. A claim for all devices of a node,
//     or with selectors that leave a device's size open, makes a pod unreadable.
//   - If the DRA driver divides a GPU as it is claimed, either all its unused devices are tainted, or none. Only a pool's
//     nodes show that its GPUs are divided in this way.
//   - Of a prioritized list, the first alternative that a new node could have is the demand. If a later one fits now, the
//     scheduler has already bound the pod.
//   - A pool without nodes is assumed to offer its GPUs as the pod requests them, by a device plugin or by DRA, and to have
//     the other devices that the pod's claims require.
//   - A pod waits for a tainted device while the pod that has it is leaving.
//   - A claim with admin access beside other requests requires one more device, one of its class on the node, and counters
//     of partitionable devices, which the planner does not know.
//   - While the scheduler allocates a pod's claims, a device of an admin access claim counts as in use for the claims after it
//     (deviceInUse in structured/internal of dynamic-resource-allocation 0.37.1). The claim for an extended resource is the
//     last one, so a pod with both fits on no node, or only on one with more devices than it requests. The planner calls it
//     unreadable.
//   - If a claim for MIG devices requires more of them than their number, the planner expects a new node to have the
//     devices of the pool's newest node, whatever layout new nodes get.
//   - If a claim requires more of its devices than their number, devices of leaving pods count as free for it.
//   - The simulator gives pods no MIG devices if no exporter reports which ones exist.
//
// In some clusters GPUs are divided by MIG. In some a DRA driver offers GPUs and MIG devices instead of a device plugin, on
// all nodes or on some; pods claim them, or request an extended resource that DRA serves. Some claims have constraints
// between devices, request network adapters of another driver, or share a claim with another pod.
//
// Not compared are groups of pods, nominated nodes and preemption (pods that a preempting pod waits for are leaving, see
// above), binding conditions, features that nodes declare, and features that are off in Kubernetes 1.37: tolerations Gt and
// Lt, and claims of PodGroups.
package fit
