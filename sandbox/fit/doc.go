// Package fit holds the test that the planner, and the simulator of its tests, believe of a pod what kube-scheduler does:
// which nodes it fits. It runs `controlplane fit`, which is the scheduler's own filters, asks both about random
// clusters, and has no code but tests.
//
// Where the planner differs on purpose, the clusters have nothing of it, or the test says so:
//
//   - a node that is not ready or cordoned is no supply, even for pods that tolerate that (docs/reasons.md: NodeUnready, NodeCordoned);
//   - what fits once pods have left waits for them, or is left to the scheduler: those that leave are soon no longer near
//     or in the way (docs/internals/003-planner.md);
//   - a new node of a pool whose template states no zone or rack is assumed to come where it helps (there, "What is
//     thin");
//   - a node's host label is its name, and a zone that is only a volume's label is required of nodes without any zone too;
//   - a volume that several nodes may use takes no place of its driver's on a node, and one that several pods of a node use
//     takes a place for each;
//   - several claims of one pod may be given the same available volume;
//   - the capacity of storage by topology is not read;
//   - which devices a claim tolerates the taints of counts only where it requires more of devices than their number, nor is
//     it counted that a device may be allocated several times (consumable capacity); a claim for all devices of a node, or
//     whose selectors leave the size of a device open, makes a pod unreadable;
//   - of a GPU that the DRA driver divides as it is claimed either all devices that are not in use are tainted, or none; and
//     only its nodes show that a pool's GPUs are divided so;
//   - of a prioritized list the first alternative that a new node could have is the demand: where another one fits, the
//     scheduler has bound the pod before;
//   - a pool without nodes is assumed to offer its GPUs in the way that a pod needs, by a device plugin or by DRA, and to
//     have the devices that its claims require beside them;
//   - a tainted device is waited for while the pod that has it leaves;
//   - a claim with admin access beside other requests needs a device more, one of its class on the node, and the counters of
//     partitionable devices, which the planner does not know;
//   - where a claim for MIG devices requires more of them than their number, the pool's newest node shows which a new one has,
//     whatever layout new ones get;
//   - devices of pods that leave count as free for a claim that requires more of devices than their number;
//   - the simulator gives pods no MIG devices where no exporter reports which there are.
//
// In a part of the clusters GPUs are divided by MIG. In a part a DRA driver offers GPUs and MIG devices in place of a device
// plugin, on all nodes or on some, and pods claim them, or request an extended resource that is served by DRA. Some claims
// have constraints between devices, or request network adapters of another driver, or share a claim with another pod.
//
// Not compared are groups of pods, nominated nodes and preemption: what a preempting pod waits for leaves, see above. Nor are
// binding conditions, features that nodes declare, and what is off in Kubernetes 1.37: tolerations
// Gt and Lt, and claims of PodGroups.
package fit
