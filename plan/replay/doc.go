// Package replay measures placement policies on a recorded list of pods. The
// pods arrive one at a time in a shuffled order; the policy places each, none
// ends, and one that fits nowhere is skipped. The figures of docs/replay.md are
// made with it, after the procedure of Weng et al., "Beware of Fragmentation"
// (ATC 2023). It reads CSV and returns a table; it opens no files and has no
// clock.
package replay
