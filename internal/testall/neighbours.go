package testall

import (
	"os"
	"testing"
)

// NeighboursEnv is the variable that `make test-neighbours` sets to 1.
const NeighboursEnv = "GPUSCALE_TEST_NEIGHBOURS"

// Neighbours skips a test beside another project's programs unless `make
// test-neighbours` runs it: they take minutes to compile the first time.
func Neighbours(t testing.TB) {
	t.Helper()
	if os.Getenv(NeighboursEnv) != "1" {
		t.Skipf("make test-neighbours only: it compiles another project's programs (%s=1 runs it)", NeighboursEnv)
	}
}
