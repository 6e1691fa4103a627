// Package top lists the pods that GPUs and slices are allocated to now, and their use.
// It asks what it is given for vectors, and lays out tables.
package top
