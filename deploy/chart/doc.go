// Package chart renders the Helm chart beside it with Helm itself, for the tests
// here and for those on the sandbox's control plane. Combinations are the values
// that both try.
//
// It is no part of any program. The fields of programs' configurations in the
// schema are written by the tests of these programs (schema.go).
package chart
