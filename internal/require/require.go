// Package require ends a test that cannot go on. It is imported by tests alone.
package require

import "testing"

// NoError ends the test with err, unless it is nil.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
