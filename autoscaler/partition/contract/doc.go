// Package contract defines what a Node states about its MIG layout: the autoscaler's record of an
// operation, the agent's answer to it, the agent's reports of layouts and tables of products, and
// mig-manager's labels. It owns their format, their bounds and what makes them stale. Autoscaler and
// agent share this package and nothing else. It reads and writes no cluster, and decides nothing.
package contract
