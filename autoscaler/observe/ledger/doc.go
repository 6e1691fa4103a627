// Package ledger builds one tree of slices from all quotas: GPUQuotas, Kueue's ClusterQueues and
// Cohorts, the queues of Volcano and KAI, ResourceQuotas. It returns which of them a pod counts
// towards. A problem of a quota is reported for that quota and does not affect the others: for any
// input the result is a valid tree.
//
// The package is a pure function of objects. It reads nothing itself and admits nothing: the
// planner does.
package ledger
