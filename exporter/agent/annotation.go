package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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

// Between tries to reach the API server.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
	// answerRetry is shorter: the requester waits for the answer.
	answerRetry = 2 * time.Second
)

// order is the value of AnnotationRequest.
type order struct {
	// ID identifies the request; the answer repeats it.
	ID      string   `json:"id"`
	GPUs    []string `json:"gpus"`
	Seconds int      `json:"seconds,omitempty"`
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
	err := checkGPUs(o.GPUs, o.Seconds)
	switch {
	case o.ID == "" || len(o.ID) > 256:
		err = errors.New("id: want 1 to 256 characters")
	case len(o.GPUs) == 0:
		err = errors.New("gpus: none is named")
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

	quiesced []string // GPUs released for the annotation
	done     string   // the annotation's value last carried out
	answer   *report  // wanted value of AnnotationAnswer; nil: absent
	ends     time.Time

	standing string // AnnotationAnswer as last seen
	owed     bool   // the answer could not be written
}

// NewFollower follows the annotation of the named node. count is called for
// each write to the API.
func NewFollower(api *pods.API, name string, gpus GPUs, count func(kind string, err error), log *slog.Logger) *Follower {
	return &Follower{node: &ownNode{api, name}, gpus: gpus, count: count, log: log, now: time.Now}
}

// Run follows the annotation until ctx ends. Released GPUs are reacquired when
// their time is over, also while the API server is away.
func (f *Follower) Run(ctx context.Context) {
	changes, failures := make(chan map[string]string), make(chan error)
	go f.listen(ctx, changes, failures)
	failed := false
	for {
		var over, again <-chan time.Time
		if !f.ends.IsZero() {
			over = time.After(f.ends.Sub(f.now()))
		}
		if f.owed {
			again = time.After(answerRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-over:
			f.expire(ctx)
		case <-again:
			f.acknowledge(ctx)
		case annotations := <-changes:
			if failed {
				f.log.Info("agent: watching the node again")
			}
			failed = false
			f.follow(ctx, annotations)
		case err := <-failures:
			if !failed {
				f.log.Warn("agent: node not watched", "error", err)
			}
			failed = true
		}
	}
}

// retries are apart from the other nodes'.
var retries = wait.Backoff{Duration: firstRetry, Factor: 2, Jitter: 1, Steps: 10, Cap: lastRetry}

// listen hands over the node's annotations now and after each change. A watch that ends by
// itself does so after some minutes; one that a proxy closes at once is not repeated without
// a pause.
func (f *Follower) listen(ctx context.Context, changes chan<- map[string]string, failures chan<- error) {
	for pause := retries; ctx.Err() == nil; {
		err := f.node.follow(ctx, func(annotations map[string]string) {
			pause = retries
			hand(ctx, changes, annotations)
		})
		if err != nil {
			hand(ctx, failures, err)
		}
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
		}
	}
}

func hand[T any](ctx context.Context, to chan<- T, what T) {
	select {
	case to <- what:
	case <-ctx.Done():
	}
}

// follow reconciles the released GPUs with the annotations.
func (f *Follower) follow(ctx context.Context, annotations map[string]string) {
	if text := annotations[AnnotationRequest]; text != f.done {
		f.done = text
		f.reacquire(ctx)
		if f.answer = nil; text != "" {
			f.answer = f.carryOut(ctx, text, annotations[AnnotationAnswer])
		}
	}
	f.standing = annotations[AnnotationAnswer]
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

// expire reports that the time is over. The node reacquires the GPUs by itself.
func (f *Follower) expire(ctx context.Context) {
	f.quiesced, f.ends = nil, time.Time{}
	f.answer = &report{ID: f.answer.ID, State: stateResumed}
	f.acknowledge(ctx)
}

// acknowledge writes the answer where it differs. A failed write is repeated
// later.
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
		f.owed = false
		return
	}
	err := f.node.patchStatus(ctx, map[string]any{"metadata": map[string]any{"annotations": map[string]any{AnnotationAnswer: value}}})
	f.count("acknowledgement", err)
	if f.owed = err != nil; f.owed {
		f.log.Warn("agent: quiesce request not acknowledged", "error", err)
		return
	}
	f.standing = want
}
