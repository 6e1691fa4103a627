// Package boards has the boards, one file each. A board reads series of gpu/metric
// alone, states for every panel the meaning of a missing value, and uses the types of
// package board.
package boards
