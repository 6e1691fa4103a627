// Package pack writes tar archives that are the same bytes for the same files:
// sorted, one time, no owner. It knows nothing of what is packed.
package pack
