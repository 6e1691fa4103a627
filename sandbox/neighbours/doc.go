// Package neighbours holds fakes of the controllers that make nodes for others:
// Cluster API's and Karpenter's, over their real CRDs, which come from their Go
// modules. A fake does what its original's documentation and source describe about
// sizes and about which machine goes, and makes KWOK nodes. It owns nothing else of
// its original: no bootstrap, no drain, no rollout.
package neighbours
