// Package testall separates `make test` from `make test-all`.
//
// Tests that repeat a class of faults which a faster test already catches, or
// that explore with fresh seeds, run in `make test-all` only, which sets
// GPUSCALE_TEST_ALL=1. It is imported by tests alone.
package testall

import (
	"os"
	"testing"
	"time"
)

// Env is the variable that `make test-all` sets to 1.
const Env = "GPUSCALE_TEST_ALL"

// Enabled reports whether this is a run of `make test-all`.
func Enabled() bool { return os.Getenv(Env) == "1" }

// Only skips the test in `make test`. why names what the test adds to the
// tests that remain.
func Only(t testing.TB, why string) {
	t.Helper()
	if !Enabled() {
		t.Skipf("make test-all only: %s (%s=1 runs it)", why, Env)
	}
}

// Seed returns the fixed seed in `make test`, and in `make test-all` a fresh
// one, which it logs.
func Seed(t testing.TB, fixed int64) int64 {
	t.Helper()
	if !Enabled() {
		return fixed
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	return seed
}
