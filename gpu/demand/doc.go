// Package demand turns what a pod requests, in any vendor's dialect, into one
// canonical Demand: whole GPUs, MIG profiles, fractions of a GPU. It reads
// extended resources as plain name → amount lists, the requests of resource
// claims as plain values, and KAI's annotations; it adds demands up. It has no
// Kubernetes types. What it cannot read is an error, never a zero demand.
package demand
