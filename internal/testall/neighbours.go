package testall

import (
	"os"
	"testing"
)

// NeighboursEnv is the variable that `make test-neighbours` sets to 1.
const NeighboursEnv = "GPUSCALE_TEST_NEIGHBOURS"

// Neighbours skips a test beside another project's programs unless `make
// test-neighbours` or `make test-all` runs it: they take minutes to compile the first
// time.
func Neighbours(t testing.TB) {
	t.Helper()
	if os.Getenv(NeighboursEnv) != "1" && !Enabled() {
		t.Skipf("make test-neighbours and make test-all only: it compiles another project's programs (%s=1 runs it)", NeighboursEnv)
	}
}
