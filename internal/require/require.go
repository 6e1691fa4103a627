// Package require ends a test that cannot go on. It is imported by tests alone.
package require

// T is a testing.T, or a rapid.T.
type T interface {
	Helper()
	Fatal(...any)
}

// NoError ends the test with err, unless it is nil.
func NoError(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
