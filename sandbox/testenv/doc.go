// Package testenv starts a control plane that all tests of a package share. It starts when the first test
// needs it and stops after the last one. It owns what all these packages need: clients, CRDs, the audit log,
// and waiting for objects.
//
// Each test uses its own namespaces, or removes the cluster-wide objects that it creates. Only tests import
// this package.
package testenv
