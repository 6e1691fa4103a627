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
//   - which devices a claim tolerates the taints of is not read, nor constraints across devices; a claim for all devices of a
//     node, or with a selector that is no equality, makes a pod unreadable;
//   - a tainted device is waited for while the pod that has it leaves;
//   - a claim with admin access beside other requests needs a device more, which the planner does not know;
//   - the simulator gives pods GPUs that a node has and does not offer.
//
// In a part of the clusters a DRA driver offers whole GPUs in place of a device plugin, and pods claim them. MIG devices by
// DRA, groups of pods, nominated nodes and preemption are not compared here.
package fit
