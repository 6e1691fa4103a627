// Package crashstory shows what the autoscaler promises about being stopped in
// the middle. It plays one short story (a node is added, a GPU is repartitioned, a gang
// comes, what was borrowed is taken back, a node is drained, all goes) on a real
// control plane, with the autoscaler as a process of its own behind a proxy that
// names every write it makes. Then it plays it again for each write, with the
// process killed right before or right after it, the answer lost, or the replica
// paused until another leads, and compares: the end state, and how often each
// thing was really done.
//
// It owns the proxy, the story and the comparison. The GPUs and their
// mig-manager are the fakes of sandbox/world/node; Prometheus is a fake that reports
// these GPUs.
package crashstory
