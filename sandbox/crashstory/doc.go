// Package crashstory shows what the autoscaler promises about being stopped in
// the middle. It plays one short story (a node is added, a GPU is repartitioned, a gang
// comes, what was borrowed is taken back, a node is drained, all goes) with the autoscaler's own
// parts over controller-runtime's fake of the API server. Then it plays it again for each write, with the
// process killed right before or right after it, or its answer lost, and compares: the end
// state, and how often each thing was really done.
//
// It has tests only. The GPUs and their mig-manager are the fakes of sandbox/world/node; the
// scheduler is a first fit. What a real API server refuses is in sandbox/guardrails.
package crashstory
