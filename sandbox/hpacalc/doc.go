// Package hpacalc tests that adapter/explain/hpa decides as the real HPA controller does. It runs
// `controlplane hpa-calc`, which is that controller with its own clock, and gives random cases to both. It
// contains only tests.
package hpacalc
