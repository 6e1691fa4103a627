// Package testall separates `make test` from `make test-all`.
//
// Some tests run in `make test-all` only, which sets GPUSCALE_TEST_ALL=1: those
// for faults that a faster test already catches, and those that explore with
// fresh seeds. It is imported by tests alone.
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
	only(t, "test-all", Env, why)
}

// Neighbours skips a test that runs another project's programs, except in `make
// test-neighbours`. They take minutes to compile the first time.
func Neighbours(t testing.TB) {
	t.Helper()
	only(t, "test-neighbours", "GPUSCALE_TEST_NEIGHBOURS", "it compiles another project's programs")
}

// Node skips a test of a real node, except in `make test-node`. What the node runs takes
// minutes to compile the first time.
func Node(t testing.TB) {
	t.Helper()
	only(t, "test-node", "GPUSCALE_TEST_NODE", "it needs a real node")
}

func only(t testing.TB, target, env, why string) {
	t.Helper()
	if os.Getenv(env) != "1" {
		t.Skipf("make %s only: %s (%s=1 runs it)", target, why, env)
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
