// Package demand turns what a pod asks for, in any vendor's dialect, into one
// canonical Demand: whole cards, MIG profiles, fractions of a card. It reads
// extended resources as plain name → amount lists, the requests of resource claims
// as plain values, and KAI's annotations; it says what a demand counts towards a
// quota. It knows no Kubernetes types, and what it cannot read is an error, never
// nothing.
package demand
