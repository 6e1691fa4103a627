package chart

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/require"
)

// TestHealthy: a complete installation has no findings, since users who see a false alarm ignore the next
// finding. The text output is short.
func TestHealthy(t *testing.T) {
	b := start(t)
	v := b.well(t)
	if v.Faults+v.Warnings > 0 {
		t.Errorf("%d faults and %d warnings of a healthy installation", v.Faults, v.Warnings)
	}
	for _, c := range v.Checks {
		for _, f := range c.Findings {
			t.Errorf("%s: %s", c.ID, f)
		}
		if c.Result == "unknown" {
			t.Errorf("%s is unknown: %s", c.ID, c.Why)
		}
	}
	if v.code != exitNothing {
		t.Errorf("exit %d, want %d", v.code, exitNothing)
	}
	t.Logf("%d checks in %s", len(v.Checks), v.took)
	text, err := b.run(t.Context(), b.mustMine(t), "--prometheus-url", b.Cluster.PrometheusURL())
	require.NoError(t, err)
	if lines := strings.Count(text.out, "\n"); lines > 15 || text.code != exitNothing {
		t.Errorf("%d lines about a cluster in order, exit %d:\n%s", lines, text.code, text.out)
	}
}

// mustMine is mine, and fails the test on an error.
func (b *env) mustMine(t *testing.T) string {
	t.Helper()
	kubeconfig, err := b.mine()
	require.NoError(t, err)
	return kubeconfig
}

// well runs doctor until it reports nothing beyond the first healthy report, and returns the last report.
func (b *env) well(t *testing.T) visit {
	t.Helper()
	return b.askUntil(t, func(v visit) bool { return len(v.worse(b.normal)) == 0 && v.Faults+v.Warnings == 0 })
}

// pause is the time between two reports. doctor uses a quarter of a second of CPU, which the programs that it
// waits for also need.
const pause = 250 * time.Millisecond

// askUntil runs doctor until a report is accepted, and returns the last report.
func (b *env) askUntil(t *testing.T, accepted func(visit) bool) visit {
	t.Helper()
	kubeconfig := b.mustMine(t)
	var last visit
	_ = until(patient(t), "asking doctor", func() error {
		v, err := b.ask(t.Context(), kubeconfig)
		require.NoError(t, err)
		if last = v; accepted(v) {
			return nil
		}
		<-time.After(pause)
		return errNotYet
	})
	return last
}
