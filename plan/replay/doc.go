// Package replay measures placement policies on a recorded list of pods: they
// come one at a time in a shuffled order, each is put where the policy wants it,
// none leaves, and one that fits nowhere is skipped. It is how the figures of
// docs/replay.md are made, after the procedure of Weng et al., "Beware of
// Fragmentation" (ATC 2023). It reads CSV and returns a table; it opens no
// files and has no clock of its own.
package replay
