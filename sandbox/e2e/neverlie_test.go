package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/promfault"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// fault is a way in which Prometheus, or what it scrapes, fails. Its steps happen one after the other.
type fault struct {
	name  string
	steps []step
	// always marks faults that make test plays, one of each class: no answer, stale data, partial data.
	always bool
}

func always(f fault) fault {
	f.always = true
	return f
}

type step struct {
	answer  promfault.Answer
	samples promfault.Samples
	want    want // state of the HPAs on our signals once they have seen the step
}

// want says which of our HPAs still have a metric.
type want int

const (
	whatever want = iota
	blind         // none
	podsOnly      // only the HPA on a Pods metric, since the controller can use the values of some of the pods
	sees          // all
)

func (w want) of(c cell) (active, matters bool) {
	switch w {
	case blind:
		return false, true
	case podsOnly:
		return c.kind == "Pods", true
	case sees:
		return true, true
	}
	return false, false
}

func one(name string, a promfault.Answer, s promfault.Samples, w want) fault {
	return fault{name: name, steps: []step{{a, s, w}}}
}

// faults returns the faults in the order of the table in docs/internals/never-lie.md.
func faults() []fault {
	return []fault{
		// This one is first, because both adapters still have the same pods as at the remembered time.
		always(one("stale: older than maxAge, from when there was no load", promfault.Stale, promfault.True, blind)),
		always(one("down: connection refused", promfault.Down, promfault.True, blind)),
		one("503", promfault.Broken, promfault.True, blind),
		one("slower than any timeout", promfault.Slow, promfault.True, blind),
		one("truncated", promfault.Truncated, promfault.True, blind),
		one("a login page", promfault.Login, promfault.True, blind),
		one("a scalar 0 in place of a vector", promfault.ScalarZero, promfault.True, blind),
		one("empty", promfault.Empty, promfault.True, blind),
		one("half the series, with a warning (Thanos)", promfault.Warned, promfault.HalfGone, blind),
		one("half the series, isPartial (VictoriaMetrics)", promfault.IsPartial, promfault.HalfGone, blind),
		one("NaN", promfault.Honest, promfault.NaN, blind),
		one("NaN from half the pods", promfault.Honest, promfault.HalfNaN, podsOnly),
		one("+Inf", promfault.Honest, promfault.Infinite, blind),
		one("-Inf", promfault.Honest, promfault.MinusInf, blind),
		one("1e300", promfault.Honest, promfault.Huge, blind),
		one("negative", promfault.Honest, promfault.Negative, blind),
		one("each series twice", promfault.Honest, promfault.Doubled, sees),
		one("each series twice, once as 0", promfault.Honest, promfault.DoubledZero, sees),
		one("the label pod lost", promfault.Honest, promfault.LabelLost, blind),
		always(one("half the targets gone", promfault.Honest, promfault.HalfGone, podsOnly)),
		{name: "a gap, then half the targets are back", steps: []step{
			{promfault.Honest, promfault.Gone, blind},
			{promfault.Honest, promfault.HalfGone, podsOnly},
		}},
	}
}

// TestNeverLie runs the real HPA controller on our adapter and on prometheus-adapter at the same time, with
// the same Prometheus, while that Prometheus fails in every known way. The load never changes, so every
// scaling is wrong, and each HPA must recover. docs/internals/never-lie.md has the results. Then it tests
// that no healthy metric is refused (neverRefuse), and scaling to zero with the same faults.
func TestNeverLie(t *testing.T) {
	b := newFaultEnv(t)
	t.Cleanup(func() {
		if t.Failed() {
			b.tails(t)
		}
	})
	deploy := func() {
		for _, s := range playedShapes() {
			b.healthy(t, s)
		}
	}
	if !compared() {
		deploy() // their models load while the faults are played
	}
	var found []finding
	for _, f := range faults() {
		if !compared() && !f.always {
			continue
		}
		if !t.Run(f.name, func(t *testing.T) { found = append(found, b.suffer(t, f)...) }) && !b.recovered(t) {
			return
		}
	}
	if compared() && len(found) == len(faults())*len(cells())*len(adapters()) {
		if !slices.ContainsFunc(found, func(x finding) bool { return x.adapter == theirs && x.down() }) {
			t.Error("no fault made an HPA on prometheus-adapter scale down, so this test could not see ours do it")
		}
		checkDoc(t, found)
	} else {
		t.Log("not all faults were played: docs/internals/never-lie.md is not compared")
	}
	if compared() {
		deploy()
	}
	t.Run("healthy", b.neverRefuse)
	if compared() {
		t.Run("scale to zero", b.zero)
	}
}

// suffer plays a fault and lets the HPAs recover from it.
func (b *faultEnv) suffer(t *testing.T, f fault) []finding {
	b.seen.reset()
	for i, s := range f.steps {
		b.inject(t, s)
		b.noticed(t, fmt.Sprintf("step %d", i+1), s.want)
	}
	var out []finding
	for a, c := range hpas(adapters()...) {
		out = append(out, b.seen.finding(a, f.name, c))
	}
	for _, x := range out {
		if x.adapter == ours && (x.least != replicas || x.most != replicas) {
			t.Errorf("%s: %s: between %d and %d replicas, %d are right", f.name, x.cell, x.least, x.most, replicas)
		}
	}
	b.heal(t, out)
	return out
}

// noticed waits until our HPAs are in the expected state. They must then stay in it for four more syncs of
// the controller.
func (b *faultEnv) noticed(t *testing.T, what string, w want) {
	t.Helper()
	as := func() error {
		for _, c := range cells() {
			active, matters := w.of(c)
			if h := b.seen.hpa(c.namespace(ours)); matters && h.active != active {
				return fmt.Errorf("%s is active: %v, want %v (%s %s)", c, h.active, active, h.reason, h.message)
			}
		}
		return nil
	}
	await.For(t, testenv.Patience, what+" noticed", as)
	b.awaitSyncs(t, 4)
	require.NoError(t, as())
}

// awaitSyncs waits for n more requests for each of our HPAs. It also waits for those of prometheus-adapter,
// unless none comes: the controller waits for its answers as long as it waits for Prometheus'.
func (b *faultEnv) awaitSyncs(t *testing.T, n int) {
	t.Helper()
	before := b.router.counts()
	await.For(t, testenv.Patience, fmt.Sprintf("%d syncs", n), func() error {
		now := b.router.counts()
		for a, c := range hpas(adapters()...) {
			ns := c.namespace(a)
			if got := now[ns] - before[ns]; got < n && (a == ours || !b.router.waiting(ns)) {
				return fmt.Errorf("%d in %s", got, ns)
			}
		}
		return nil
	})
}

// heal ends the fault. Our HPAs must recover by themselves. Whether theirs do is recorded; those that do not
// are repaired.
func (b *faultEnv) heal(t *testing.T, found []finding) {
	t.Helper()
	b.honest(t)
	await.For(t, testenv.Patience, "ours recovered", func() error { return b.right(ours) })
	if compared() {
		patience, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_ = await.Until(patience, func(context.Context) error { return b.right(theirs) }) // those that have not recovered by then are recorded
		cancel()
	}
	for i := range found {
		found[i].recovered = b.rightIn(found[i].cell.namespace(found[i].adapter)) == nil
	}
	b.reset(t)
	b.awaitSyncs(t, 2)
}

// recovered reports whether the environment is usable after a failed fault.
func (b *faultEnv) recovered(t *testing.T) bool {
	b.honest(t)
	b.reset(t)
	return b.right(ours) == nil
}
