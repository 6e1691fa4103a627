package testall

import (
	"flag"
	"os"
	"testing"
)

// Main is the TestMain of a package with rapid's properties. `make test` draws the
// same cases each time, `make test-all` fresh ones and ten times as many. Flags
// given on the command line take precedence. `make test-all` needs go test's
// -count=1, or an old result from the cache would stand for fresh cases.
func Main(m *testing.M) {
	flag.Parse()
	name, unset, value := "rapid.seed", "0", "1"
	if Enabled() {
		name, unset, value = "rapid.checks", "100", "1000"
	}
	if f := flag.Lookup(name); f != nil && f.Value.String() == unset {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
