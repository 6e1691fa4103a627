// Package boards contains the boards, one file each. A board reads only series of gpu/metric. For every panel
// it states what a missing value means. It uses the types of package board.
package boards
