// Package rails holds the tests of the autoscaler's bounds and off switches: the
// real loop on a real control plane, with KWOK's nodes, the real scheduler and the
// real eviction API. Each test looks at the state of the world, not at calls, and
// fails when the rail it is about is taken out.
//
// Two things are doubles: the exporters, which say who holds what as pods are bound,
// and time, which the loop is told and the tests move forward. docs/rails.md lists
// the rails and their tests.
package rails
