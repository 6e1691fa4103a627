// Package pack fits demand onto GPUs, exactly, and onto nodes, well: which
// layout a GPU should be partitioned into, which place an instance should take, which
// node a pod should go to, so that the most demand is served now and the most
// stays placeable later. It knows tables, layouts and what is free on a node,
// never names, money or time.
//
// Target repartitions one GPU, an Outlook places the next MIG device on a GPU,
// and a Fleet places requests that come one by one under a Policy.
package pack
