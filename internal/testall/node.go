package testall

import (
	"os"
	"testing"
)

// NodeEnv is the variable that `make test-node` sets to 1.
const NodeEnv = "GPUSCALE_TEST_NODE"

// Node skips a test of a real node unless `make test-node` runs it: what the
// node runs takes minutes to compile the first time.
func Node(t testing.TB) {
	t.Helper()
	if os.Getenv(NodeEnv) != "1" {
		t.Skipf("make test-node only: it needs a real node (%s=1 runs it)", NodeEnv)
	}
}
