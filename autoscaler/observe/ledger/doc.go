// Package ledger puts everybody's quotas into one tree of slices: GPUQuotas, Kueue's
// ClusterQueues and Cohorts, the queues of Volcano and KAI, ResourceQuotas; and says
// which of them a pod counts towards. What is wrong with a quota is said of that
// quota, and never keeps the others from holding: whatever goes in, the tree that
// comes out can be built.
//
// It is a pure function of objects; it reads nothing itself and admits nobody: that
// is the planner's.
package ledger
