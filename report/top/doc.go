// Package top lists the pods that GPUs and MIG instances are allocated to now, and how they use them. It gets
// its data through an interface for queries, and formats tables.
package top
