// Package neighbours holds doubles of the controllers that make nodes for others:
// Cluster API's and Karpenter's, over their real CRDs, which come from their Go
// modules. A double does what its original's documentation and source say about
// sizes and about which machine goes, and makes KWOK nodes. It owns nothing else of
// its original: no bootstrap, no drain, no rollout.
package neighbours
