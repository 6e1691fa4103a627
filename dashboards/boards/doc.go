// Package boards are the boards, one file each. A board reads names from
// gpu/metric alone, says of every panel what an absent value means, and is written
// in the words of package board.
package boards
