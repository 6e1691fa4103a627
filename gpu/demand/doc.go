// Package demand turns the extended resources a pod asks for, in any vendor's
// dialect, into one canonical Demand: whole cards, MIG profiles, fractions of
// a card. It works on plain name → amount lists and knows no Kubernetes types.
package demand
