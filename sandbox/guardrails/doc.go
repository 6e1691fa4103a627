// Package guardrails contains the tests of the autoscaler's limits and off switches. They run the real loop
// on a real control plane, with KWOK's nodes, the real scheduler and the real eviction API. They also test
// what the permissions of deploy/manifests and the guardrails of deploy/tenant refuse. Each test checks the
// state of the cluster, not calls, and fails without the guardrail that it tests.
//
// Two things are fakes: the exporters, which report allocations when pods are bound, and the loop's clock,
// which the tests move forward. docs/guardrails.md lists the guardrails and their tests.
package guardrails
