// Package top lists the pods that GPUs and slices are allocated to now, and their use.
// It reads vectors and lays out tables, without I/O.
package top
