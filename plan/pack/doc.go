// Package pack fits demand onto GPUs, exactly, and onto nodes, well: the layout
// of a GPU, the placement of an instance, the node of a pod, so that the most
// demand is served now and the most stays placeable later. Its input is tables,
// layouts and free capacity, never names, money or time.
//
// Target repartitions one GPU, an Outlook places the next MIG device on a GPU,
// and a Fleet places requests that come one by one under a Policy.
package pack
