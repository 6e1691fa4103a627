// Package pack fits demand onto cards, exactly: which layout a card should be
// cut into, and which place an instance should take, so that the most demand
// is served now and the most stays placeable later. It knows tables and
// layouts, never nodes, pods, money or time.
package pack
