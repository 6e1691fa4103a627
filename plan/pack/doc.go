// Package pack fits demand onto cards, exactly, and onto nodes, well: which
// layout a card should be cut into, which place an instance should take, which
// node a pod should go to, so that the most demand is served now and the most
// stays placeable later. It knows tables, layouts and what is free on a node,
// never names, money or time.
//
// Target cuts one card anew, Pack fills several with a known set, an Outlook
// places the next instance on a card, and a Fleet places asks that come one by
// one under a Policy.
package pack
