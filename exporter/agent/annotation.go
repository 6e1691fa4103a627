package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// Annotations of the own Node.
const (
	// AnnotationRequest requests the release of GPUs; removing or replacing it
	// reacquires them.
	AnnotationRequest = "gpuscale.io/quiesce"
	// AnnotationAnswer is the result of the request.
	AnnotationAnswer = "gpuscale.io/quiesced"
)

// reconcileEvery is how often what is due is done: the time of a request is over, or an answer
// could not be written.
const reconcileEvery = time.Second

// order is the value of AnnotationRequest.
type order struct {
	// ID identifies the request; the answer repeats it.
	ID string `json:"id"`
	selection
}

// States of an order.
const (
	stateReleased = "released" // no handle of the GPUs is open
	stateResumed  = "resumed"  // its time is over
	stateFailed   = "failed"   // no GPU was released
)

// report is the value of AnnotationAnswer.
type report struct {
	ID       string         `json:"id"`
	State    string         `json:"state"`
	Released []node.Release `json:"released,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// parseOrder reads the annotation's value.
func parseOrder(text string) (order, error) {
	var o order
	if err := strict([]byte(text), &o); err != nil {
		return order{}, fmt.Errorf(`annotation %s: %w; want {"id":"…","gpus":["GPU-…"],"seconds":300}`, AnnotationRequest, err)
	}
	err := o.check()
	if o.ID == "" || len(o.ID) > 256 {
		err = errors.New("id: want 1 to 256 characters")
	}
	if err != nil {
		return o, fmt.Errorf("annotation %s: %w", AnnotationRequest, err)
	}
	return o, nil
}

// Follower carries out the requests in the Node's annotation.
type Follower struct {
	node  *ownNode
	gpus  GPUs
	count func(kind string, err error)
	log   *slog.Logger
	now   func() time.Time

	seen atomic.Pointer[map[string]string] // the Node's annotations; nil: not yet
	wake chan struct{}                     // receives after they were seen

	// Of Run only:
	quiesced []string           // GPUs released for the annotation
	done     string             // the annotation's value last carried out
	answer   *report            // wanted value of AnnotationAnswer; nil: absent
	ends     time.Time          // of the release; zero without one
	last     *map[string]string // of seen
	standing string             // AnnotationAnswer as last seen or written
	owed     bool               // the answer could not be written
}

// NewFollower follows the annotation of the named node. count is called for
// each write to the API.
func NewFollower(api *pods.API, name string, gpus GPUs, count func(kind string, err error), log *slog.Logger) *Follower {
	return &Follower{node: &ownNode{api, name}, gpus: gpus, count: count, log: log, now: time.Now, wake: make(chan struct{}, 1)}
}

// Run follows the annotation until ctx ends. Released GPUs are reacquired when
// their time is over, also while the API server is away.
func (f *Follower) Run(ctx context.Context) {
	go f.watch(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-time.After(reconcileEvery):
		}
		if seen := f.seen.Load(); seen != nil {
			f.reconcile(ctx, seen)
		}
	}
}

// retries are apart from the other nodes'.
var retries = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: time.Minute}

// watch keeps the Node's annotations as they are. A watch that ends by itself does so after some
// minutes; one that a proxy closes at once is not repeated without a pause.
func (f *Follower) watch(ctx context.Context) {
	failed := false
	for pause := retries; ctx.Err() == nil; {
		err := f.node.follow(ctx, func(annotations map[string]string) {
			if failed {
				f.log.Info("agent: watching the node again")
			}
			pause, failed = retries, false
			f.seen.Store(&annotations)
			select {
			case f.wake <- struct{}{}:
			default:
			}
		})
		if err != nil && !failed && ctx.Err() == nil {
			f.log.Warn("agent: node not watched", "error", err)
			failed = true
		}
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
		}
	}
}

// reconcile does what the annotations and the time require.
func (f *Follower) reconcile(ctx context.Context, seen *map[string]string) {
	if seen != f.last {
		f.last, f.standing = seen, (*seen)[AnnotationAnswer]
	}
	if text := (*seen)[AnnotationRequest]; text != f.done {
		f.done = text
		f.reacquire(ctx)
		if f.answer = nil; text != "" {
			f.answer = f.carryOut(ctx, text, f.standing)
		}
	}
	if !f.ends.IsZero() && !f.now().Before(f.ends) { // the node reacquires the GPUs by itself
		f.quiesced, f.ends, f.answer = nil, time.Time{}, &report{ID: f.answer.ID, State: stateResumed}
	}
	f.acknowledge(ctx)
}

// carryOut releases an order's GPUs. An existing answer is this exporter's from
// before a restart: its time continues.
func (f *Follower) carryOut(ctx context.Context, text, standing string) *report {
	o, err := parseOrder(text)
	if err != nil {
		return &report{ID: o.ID, State: stateFailed, Error: err.Error()}
	}
	d := time.Duration(o.Seconds) * time.Second
	var before report
	if json.Unmarshal([]byte(standing), &before) == nil && before.ID == o.ID {
		switch {
		case before.State != stateReleased:
			return &before // it has failed or is over
		case len(before.Released) > 0 && !f.now().Before(before.Released[0].Until):
			return &report{ID: o.ID, State: stateResumed}
		case len(before.Released) > 0:
			d = min(before.Released[0].Until.Sub(f.now()), node.MaxQuiesce)
		}
	}
	done, err := f.gpus.Quiesce(ctx, o.GPUs, d)
	if err != nil {
		f.log.Warn("agent: GPUs not released for the annotation", "id", o.ID, "gpus", o.GPUs, "error", err)
		return &report{ID: o.ID, State: stateFailed, Error: err.Error()}
	}
	for _, r := range done {
		f.quiesced = append(f.quiesced, r.GPU)
		f.ends = r.Until
	}
	return &report{ID: o.ID, State: stateReleased, Released: done}
}

// reacquire ends the release for the annotation before its time.
func (f *Follower) reacquire(ctx context.Context) {
	if len(f.quiesced) > 0 {
		if err := f.gpus.Resume(ctx, f.quiesced); err != nil {
			f.log.Warn("agent: GPUs not reacquired", "gpus", f.quiesced, "error", err)
		}
	}
	f.quiesced, f.ends = nil, time.Time{}
}

// acknowledge writes the answer where it differs.
func (f *Follower) acknowledge(ctx context.Context) {
	var value any // null removes it
	want := ""
	if f.answer != nil {
		text, err := json.Marshal(f.answer)
		if err != nil {
			return // of strings and times only: it cannot fail
		}
		want = string(text)
		value = want
	}
	if want == f.standing {
		return
	}
	err := f.node.patchStatus(ctx, map[string]any{"metadata": map[string]any{"annotations": map[string]any{AnnotationAnswer: value}}})
	f.count("acknowledgement", err)
	if err == nil {
		f.standing = want
	} else if !f.owed {
		f.log.Warn("agent: quiesce request not acknowledged", "error", err)
	}
	f.owed = err != nil
}
