// Package testenv starts the control plane that the tests of one package share: once,
// when the first test needs it, and stopped when the last one has ended. It owns what
// all of these packages need: clients, CRDs, the audit log, and waiting for objects.
//
// Each test works in namespaces of its own, or removes the cluster-wide objects it
// makes. It is imported by tests alone.
package testenv
