package crashstory

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

var verbose = flag.Bool("steps", false, "log how long each step took")

// shared is the control plane of all tests here: they run one after another.
var shared = testenv.NewShared(func(ctx context.Context) (*Env, error) {
	level := slog.LevelWarn
	if *verbose {
		level = slog.LevelDebug
	}
	return newEnv(ctx, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})))
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
