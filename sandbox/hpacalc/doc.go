// Package hpacalc holds the test that adapter/explain/hpa does what the real
// HPA controller does. It runs `controlplane hpa-calc`, which is that
// controller on a clock of its own, and asks both about random cases. It has
// no code but tests.
package hpacalc
