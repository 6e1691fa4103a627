// Package replay plays a recorded list of pods in time through plan.Make, the
// planner that runs in production, and through cluster-autoscaler's and Karpenter's
// published rules, in the world of plan/sim. docs/internals/replay.md has what it
// assumes.
package replay
