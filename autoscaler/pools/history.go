package pools

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
)

const (
	// firstBackoff follows one failure; it doubles with each further one.
	firstBackoff = time.Minute
	// maxBackoff is its upper bound.
	maxBackoff = 30 * time.Minute
	// forgetFailures is how long after a backoff the failures before it count, as in cluster-autoscaler.
	forgetFailures = 3 * time.Hour
	// samplesKept is the number of provisioning times that are kept, samplesNeeded the number
	// before they count.
	samplesKept, samplesNeeded = 16, 3
	// maxSilence is how long requests may go unanswered in a row before they count as failures.
	maxSilence = time.Minute
	// maxSample is longer than any boot; longer times have another cause.
	maxSample = 2 * time.Hour
	// firstSight is the greatest age at which a new node is first seen. An older node was outside the pool until then,
	// for example in a warm pool, and its age says nothing about the time to ready.
	firstSight = 5 * time.Minute
)

// History records each pool's provisioning times and consecutive failures. It is safe for
// concurrent use.
type History struct {
	now func() time.Time

	mu    sync.Mutex
	pools map[string]*record
}

// Learned is what a pool's history yields.
type Learned struct {
	// ReadyAfter is the 75th percentile of the time from request to ready, 0 while there are too
	// few samples.
	ReadyAfter time.Duration
	// Failures in a row, and until when the pool is not scaled up.
	Failures     int
	BackoffUntil time.Time
}

type record struct {
	uid      types.UID // of the pool: one created again under the name is another
	since    time.Time
	unmet    bool      // a request may be unmet; at first, one of the last leader
	asked    time.Time // the last accepted request; zero if none is known to be unmet
	silent   time.Time // since when requests have not been answered, zero where the last was
	failures int
	until    time.Time
	took     []time.Duration
	// upcoming are nodes that are not ready yet; the value is when they were requested, or created; zero if unknown.
	upcoming map[types.UID]time.Time
}

// NewHistory returns an empty History. now is the clock.
func NewHistory(now func() time.Time) *History {
	return &History{now: now, pools: map[string]*record{}}
}

// record returns the record of a pool, at first from its status.
func (h *History) record(pool *v1alpha1.GPUNodePool) *record {
	r, ok := h.pools[pool.Name]
	if !ok || r.uid != pool.UID {
		r = &record{uid: pool.UID, since: h.now(), unmet: true, upcoming: map[types.UID]time.Time{}}
		if b := pool.Status.Backoff; b != nil {
			r.failures, r.until = max(int(b.Failures), 0), b.UntilTime.Time
			if most := h.now().Add(maxBackoff); r.until.After(most) { // a leader whose clock was ahead wrote it
				r.until = most
			}
		}
		if d := pool.Status.ReadyAfter; d != nil && d.Duration > 0 {
			r.took = slices.Repeat([]time.Duration{d.Duration}, samplesNeeded)
		}
		h.pools[pool.Name] = r
	}
	return r
}

// Asked records a request for a larger size and the provider's answer.
func (h *History) Asked(pool *v1alpha1.GPUNodePool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, now := h.record(pool), h.now()
	if pool.Spec.Provider.ASG == nil && unanswered(err) {
		if r.silent.IsZero() {
			r.silent = now
		}
		if now.Sub(r.silent) < maxSilence {
			return
		}
	}
	r.silent = time.Time{}
	if err != nil {
		r.fail(now)
		return
	}
	r.asked, r.unmet = now, true
}

// Withdrawn records that a request is taken back. The planner decides that when no node has come for too long. It
// counts as one failure.
func (h *History) Withdrawn(pool *v1alpha1.GPUNodePool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r := h.record(pool); r.unmet {
		r.fail(h.now())
		r.unmet, r.asked = false, time.Time{}
	}
}

// Seen records the pool's Node objects and the provider's target, and returns the results.
func (h *History) Seen(pool *v1alpha1.GPUNodePool, target int, nodes []*corev1.Node) Learned {
	h.mu.Lock()
	defer h.mu.Unlock()
	r, now := h.record(pool), h.now()
	r.arrivals(nodes, now)
	if r.failures > 0 && now.Sub(r.until) > forgetFailures {
		r.failures, r.until = 0, time.Time{}
	}
	if target <= len(nodes) {
		r.unmet, r.asked = false, time.Time{}
	}
	return Learned{ReadyAfter: r.learned(), Failures: r.failures, BackoffUntil: r.until}
}

// arrivals tracks new nodes until they are ready.
func (r *record) arrivals(nodes []*corev1.Node, now time.Time) {
	there := make(map[types.UID]bool, len(nodes))
	for _, n := range nodes {
		there[n.UID] = true
		became := readySince(n)
		from, upcoming := r.upcoming[n.UID]
		switch {
		case !upcoming && n.CreationTimestamp.Time.Before(r.since.Truncate(time.Second)):
			// The node existed before this process: its first time to ready is unknown.
		case !upcoming && became.IsZero():
			r.upcoming[n.UID] = r.began(n, now)
		case upcoming && !became.IsZero():
			delete(r.upcoming, n.UID)
			r.arrived(became.Sub(from))
		}
	}
	for uid := range r.upcoming {
		if !there[uid] {
			delete(r.upcoming, uid)
		}
	}
}

// began returns when a node that is first seen now was requested, as far as that is known.
func (r *record) began(n *corev1.Node, now time.Time) time.Time {
	switch made := n.CreationTimestamp.Time; {
	case now.Sub(made) > firstSight:
		return time.Time{}
	case r.asked.IsZero() || r.asked.After(made) || made.Sub(r.asked) > maxSample:
		return made
	}
	return r.asked
}

// arrived ends a series of failures.
func (r *record) arrived(took time.Duration) {
	r.failures, r.until = 0, time.Time{}
	if took < 0 || took > maxSample {
		return
	}
	r.took = append(r.took, took)
	r.took = r.took[max(0, len(r.took)-samplesKept):]
}

func (r *record) fail(now time.Time) {
	r.failures++
	r.until = now.Add(min(firstBackoff<<min(r.failures-1, 5), maxBackoff)) // 1, 2, 4, 8, 16, 30 minutes
}

func (r *record) learned() time.Duration {
	if len(r.took) < samplesNeeded {
		return 0
	}
	sorted := slices.Sorted(slices.Values(r.took))
	return sorted[len(sorted)*3/4]
}

// readySince returns when a node became ready, zero while it is not.
func readySince(n *corev1.Node) time.Time {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
