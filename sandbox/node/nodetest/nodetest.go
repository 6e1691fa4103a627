//go:build linux

// Package nodetest starts a control plane with a real node for one test. Only tests import it.
package nodetest

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/node"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// Only skips the test, with the reason, outside of `make test-node` and on machines that lack something for a
// node.
func Only(t testing.TB) {
	t.Helper()
	testall.Node(t)
	if err := node.Missing(); err != nil {
		t.Skip(err)
	}
}

// Env starts the control plane. It sets Options.Change itself.
func Env(ctx context.Context, t testing.TB, o testenv.Options) *testenv.Env {
	t.Helper()
	o.Change = func(c *cluster.Options) { c.Egress = true }
	env, err := testenv.Start(ctx, o)
	require.NoError(t, err)
	t.Cleanup(env.Stop)
	return env
}

// Start compiles the node's programs and adds the node to the control plane. It is stopped at the end of the
// test.
func Start(ctx context.Context, t testing.TB, env *testenv.Env, o node.Options) *node.Node {
	t.Helper()
	var err error
	o.Binaries, err = build.Node(ctx, build.Options{Out: os.Stderr})
	require.NoError(t, err)
	begin := time.Now()
	n, err := node.Start(ctx, env.Cluster, o)
	require.NoError(t, err)
	t.Logf("node %s was Ready after %.1f s", n.Name(), time.Since(begin).Seconds())
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}
