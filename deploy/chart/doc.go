// Package chart renders the Helm chart in this folder with Helm itself. The tests here use it, and so do the
// tests on the sandbox's control plane. Both try all Combinations.
//
// It is not part of any program. The part of the schema that describes a program's configuration is written
// by that program's tests (schema.go).
package chart
