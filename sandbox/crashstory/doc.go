// Package crashstory tests that the autoscaler can be stopped at any moment. It plays one short story with
// the autoscaler's own parts over controller-runtime's fake of the API server: a node is added, a GPU is
// repartitioned, a gang starts, borrowed GPUs are reclaimed, a node is drained, and everything is removed.
// Then it plays the story again for each write. The process is killed right before or right after that write,
// or the answer is lost. The end state must be the same, and each action must have been done as often.
//
// It contains only tests. The GPUs and mig-manager are the fakes of sandbox/world/node, and the scheduler is
// a first fit. sandbox/guardrails tests what a real API server refuses.
package crashstory
