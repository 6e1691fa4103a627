package crashstory

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// shared is the control plane of all tests here: they run one after another.
var shared = testenv.NewShared(func(ctx context.Context) (*Env, error) {
	return NewEnv(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})))
})

func TestMain(m *testing.M) { shared.Main(m) }

// newTestReplica ends with the test.
func newTestReplica(t *testing.T, b *Env, name string, elect bool) *replica {
	t.Helper()
	r, err := b.newReplica(name, elect)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			fmt.Fprintln(os.Stderr, "the log of", name, "ends:")
			for _, line := range proc.Tail(b.Cluster.LogFile(name), 40) {
				fmt.Fprintln(os.Stderr, "   ", line)
			}
		}
		r.close()
	})
	return r
}
