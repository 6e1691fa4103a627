// Package pack fits demand onto GPUs, exactly: the layout of a GPU, so that the
// most demand is served now and the most stays placeable later. Its input is
// tables, layouts and counts, never names, money or time.
package pack
