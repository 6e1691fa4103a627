package pools

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

// past is a pool with a virtual clock.
type past struct {
	h     *History
	pool  *v1alpha1.GPUNodePool
	now   time.Time
	nodes []*corev1.Node
}

func newPast() *past {
	p := &past{pool: testPool(), now: testNow}
	p.h = NewHistory(func() time.Time { return p.now })
	p.seen(0)
	return p
}

func (p *past) seen(target int) Learned { return p.h.Seen(p.pool, target, p.nodes) }

// comes creates a node now, which is ready later.
func (p *past) comes(readyAfter time.Duration) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("n-%d", len(p.nodes)), UID: types.UID(fmt.Sprint(len(p.nodes))), CreationTimestamp: metav1.NewTime(p.now),
	}}
	p.nodes = append(p.nodes, n)
	p.seen(len(p.nodes))
	p.now = p.now.Add(readyAfter)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(p.now)}}
	p.seen(len(p.nodes))
}

func TestTimeToReadyIsLearned(t *testing.T) {
	p := newPast()
	for i, d := range []time.Duration{2 * time.Minute, 4 * time.Minute, 3 * time.Minute, 3 * time.Minute} {
		p.h.Asked(p.pool, i+1, nil)
		p.now = p.now.Add(30 * time.Second) // before there is a Node object
		p.comes(d)
		if got := p.seen(i + 1).ReadyAfter; i < samplesNeeded-1 && got != 0 {
			t.Errorf("%s after %d nodes: too few samples", got, i+1)
		}
	}
	if got, want := p.seen(4).ReadyAfter, 4*time.Minute+30*time.Second; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// A node that becomes ready again is no new node.
	p.nodes[0].Status.Conditions[0].LastTransitionTime = metav1.NewTime(p.now.Add(time.Hour))
	if got := len(p.h.pools["p"].took); got != 4 {
		t.Errorf("%d samples of 4 nodes", got)
	}
}

// TestRecreatedPoolHasNoHistory: backoff and times of a deleted pool do not apply to another of its
// name.
func TestRecreatedPoolHasNoHistory(t *testing.T) {
	p := newPast()
	p.h.Asked(p.pool, 1, errors.New("no capacity"))
	if p.seen(0).Failures != 1 {
		t.Fatal("the failure is not known")
	}
	p.pool.UID = "another"
	if got := p.seen(0); got.Failures != 0 || !got.BackoffUntil.IsZero() {
		t.Errorf("it begins with %+v", got)
	}
}

func TestOldNodesAreNoSamples(t *testing.T) {
	p := newPast()
	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{UID: "old", CreationTimestamp: metav1.NewTime(testNow.Add(-time.Hour))}}
	p.nodes = append(p.nodes, old)
	p.seen(1)
	old.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(testNow)}}
	p.seen(1)
	if got := p.h.pools["p"].took; len(got) != 0 {
		t.Errorf("a node from before took %v", got)
	}
}

func TestBackoffGrowsAndEnds(t *testing.T) {
	p := newPast()
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		p.h.Asked(p.pool, 1, errors.New("no capacity"))
		if got := p.seen(0); got.BackoffUntil.Sub(p.now) != want*time.Minute || got.Failures != i+1 {
			t.Errorf("failure %d: %s, %d", i+1, got.BackoffUntil.Sub(p.now), got.Failures)
		}
	}
	p.h.Asked(p.pool, 1, nil)
	if got := p.seen(1); got.Failures != 7 {
		t.Errorf("a request that was taken is no node yet: %+v", got)
	}
	p.comes(time.Minute)
	if got := p.seen(1); got.Failures != 0 || !got.BackoffUntil.IsZero() {
		t.Errorf("a node came, and still: %+v", got)
	}
}

// TestNodesOverdue is a provider that accepts the request and does nothing.
func TestNodesOverdue(t *testing.T) {
	p := newPast()
	p.h.Asked(p.pool, 2, nil)
	p.now = p.now.Add(minOverdue)
	if got := p.seen(2); got.Failures != 0 {
		t.Errorf("%+v after %s", got, minOverdue)
	}
	p.now = p.now.Add(time.Second)
	for range 3 {
		if got := p.seen(2); got.Failures != 1 || got.BackoffUntil.Sub(p.now) != firstBackoff {
			t.Errorf("%+v: one request fails once", got)
		}
	}
	p.pool.Spec.ReadyAfter = &metav1.Duration{Duration: 20 * time.Minute}
	p.h.Asked(p.pool, 2, nil)
	p.now = p.now.Add(time.Hour)
	if got := p.seen(2); got.Failures != 1 {
		t.Errorf("%+v: three times 20 min are allowed", got)
	}
}

func TestHistoryIsTakenFromTheStatus(t *testing.T) {
	p := newPast()
	p.pool.Name = "other"
	until := testNow.Add(time.Minute)
	p.pool.Status.Backoff = &v1alpha1.Backoff{Failures: 3, UntilTime: metav1.NewTime(until)}
	p.pool.Status.ReadyAfter = &metav1.Duration{Duration: 7 * time.Minute}
	if got := p.seen(0); got.Failures != 3 || !got.BackoffUntil.Equal(until) || got.ReadyAfter != 7*time.Minute {
		t.Errorf("%+v", got)
	}
	p.h.Asked(p.pool, 1, errors.New("no capacity"))
	if got := p.seen(0); got.BackoffUntil.Sub(p.now) != 8*time.Minute {
		t.Errorf("the row of failures begins again: %+v", got)
	}
}

func TestWriteConflictsAreNoFailures(t *testing.T) {
	w := newScaleWorld(t, deploymentRef, capiObjects()...)
	p := Providers{Scale: w.scale, History: NewHistory(time.Now)}
	if err := p.Delete(t.Context(), w.pool, w.node("w-1")); err != nil {
		t.Fatal(err)
	}
	if err := p.SetSize(t.Context(), w.pool, 3); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	if got := p.Learn(w.pool, 2, nil); got.Failures != 0 {
		t.Errorf("%+v", got)
	}
	w.pool.Spec.Provider.Scale.Name = "none"
	if err := p.SetSize(t.Context(), w.pool, 3); err == nil {
		t.Fatal("no error")
	}
	if got := p.Learn(w.pool, 2, nil); got.Failures != 1 {
		t.Errorf("%+v", got)
	}
}

// TestFailuresAreForgotten: a pool that has not failed for hours begins with a short backoff again, and its
// status has none.
func TestFailuresAreForgotten(t *testing.T) {
	p := newPast()
	for range 4 {
		p.h.Asked(p.pool, 1, errors.New("no capacity"))
	}
	p.now = p.seen(0).BackoffUntil.Add(forgetFailures)
	if got := p.seen(0); got.Failures != 4 {
		t.Errorf("%s after the backoff: %+v", forgetFailures, got)
	}
	p.now = p.now.Add(time.Second)
	if got := p.seen(0); got.Failures != 0 || !got.BackoffUntil.IsZero() {
		t.Errorf("later: %+v", got)
	}
}

// TestFailuresAreRetriedLessOften: a failing provider's answer is kept for a time that doubles, up
// to a minute; a Problem, and a change of the pool, are read at the normal interval; one success
// resets it.
func TestFailuresAreRetriedLessOften(t *testing.T) {
	now, asked := testNow, 0
	var fails error = errors.New("Throttling")
	m := newMemo(10*time.Second, func() time.Time { return now })
	pool := testPool()
	get := func() error {
		_, err := m.get(t.Context(), pool, func() (Listing, error) { asked++; return Listing{Target: 3}, fails })
		return err
	}
	over := func(d time.Duration) int {
		before := asked
		for end := now.Add(d); now.Before(end); now = now.Add(time.Second) {
			if err := get(); !errors.Is(err, fails) {
				t.Fatalf("%v, want %v", err, fails)
			}
		}
		return asked - before
	}
	if n := over(62 * time.Second); n != 5 { // after 2, 4, 8, 16 and 32 seconds
		t.Errorf("asked %d times in a minute of failures", n)
	}
	if n := over(10 * time.Minute); n != 10 {
		t.Errorf("asked %d times in ten minutes more", n)
	}
	pool.Generation++
	if n := over(time.Second); n != 1 {
		t.Errorf("a pool that was changed was asked for %d times", n)
	}
	fails = &Problem{Reason: ReasonTarget}
	m.forget(pool)
	if n := over(time.Minute); n != 6 {
		t.Errorf("what may have been mended was looked at %d times in a minute", n)
	}
	fails = nil
	now = now.Add(time.Minute)
	if err := get(); err != nil {
		t.Fatal(err)
	}
	fails = errors.New("Throttling")
	now = now.Add(time.Minute)
	_, _ = over(time.Second), now
	if n := over(2 * time.Second); n != 1 {
		t.Errorf("the first failure after a good answer is asked again after two seconds, not %d times", n)
	}
	// A clock that goes back keeps no answer forever.
	before := asked
	now = now.Add(-time.Hour)
	_ = get()
	if asked == before {
		t.Error("an answer of the future is believed")
	}
	// A call that is cancelled by this process says nothing about the provider.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	pool.Name = "other"
	_, _ = m.get(ctx, pool, func() (Listing, error) { return Listing{}, context.Canceled })
	if _, kept := m.answers["other"]; kept {
		t.Error("our own end is kept as a failure")
	}
}
