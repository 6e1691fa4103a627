// Package contract is what stands on a node about its MIG layout: the autoscaler's record of an
// operation, the agent's answer to it, the agent's reports of layouts and tables of products, and
// mig-manager's labels. It owns their format, their bounds and what makes them stale. Autoscaler and
// agent share it and nothing else: it reads and writes no cluster, and decides nothing.
package contract
