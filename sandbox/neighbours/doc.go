// Package neighbours holds fakes of what makes nodes for others: Cluster API's controllers of
// MachineDeployments, and an infrastructure provider below its real ones, over the real CRDs, which come
// from their Go modules. A fake does what its original's documentation and source describe about
// sizes and about which machine goes, and makes KWOK nodes. It owns nothing else of
// its original: no bootstrap, no drain, no rollout.
package neighbours
