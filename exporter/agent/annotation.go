package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"

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

// reconcileEvery is how often the Follower reconciles without a change: the time of a request
// may be over, or an answer may still have to be written.
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
	stateResumed  = "resumed"  // all are reacquired: its time is over, or another request came
	stateFailed   = "failed"   // no GPU was released
)

// report is the value of AnnotationAnswer. A report without a state is not
// written.
type report struct {
	ID       string         `json:"id"`
	State    string         `json:"state"`
	Released []node.Release `json:"released,omitempty"` // of the request's GPUs
	Error    string         `json:"error,omitempty"`
}

// gpus are the released GPUs.
func (r report) gpus() (out []string) {
	for _, of := range r.Released {
		out = append(out, of.GPU)
	}
	return out
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
	node *ownNode
	gpus GPUs
	log  *slog.Logger

	request string // value of AnnotationRequest last carried out
	answer  report // wanted in AnnotationAnswer
	stands  string // AnnotationAnswer as last seen or written
	owed    bool   // the answer could not be written
}

// NewFollower follows the annotation of the named node. count is called for
// each write to the API.
func NewFollower(api *pods.API, name string, gpus GPUs, count func(kind string, err error), log *slog.Logger) *Follower {
	return &Follower{node: &ownNode{api, name, count}, gpus: gpus, log: log}
}

// retries are jittered, so that the nodes do not retry at the same time.
var retries = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 1, Steps: 10, Cap: time.Minute}

// Run follows the annotation until ctx ends. A watch normally ends by itself after some minutes.
// The pause before the next one is for a proxy that closes watches at once. While the API server is
// away, the node itself reacquires GPUs whose time is over.
func (f *Follower) Run(ctx context.Context) {
	failed := false
	for pause := retries; ctx.Err() == nil; {
		err := f.follow(ctx, func() {
			if failed {
				f.log.Info("agent: node watched again")
			}
			pause, failed = retries, false
		})
		if err != nil && !failed && ctx.Err() == nil {
			f.log.Warn("agent: node not watched", "node", f.node.name, "error", err)
			failed = true
		}
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
		}
	}
}

// follow does what the annotation requires, now and after each change, until the API server ends
// the watch, which is no error.
func (f *Follower) follow(ctx context.Context, answered func()) error {
	now, changes, err := f.node.watch(ctx)
	if err != nil {
		return err
	}
	defer changes.Stop()
	answered()
	f.stands = now[AnnotationAnswer]
	for {
		f.reconcile(ctx, now[AnnotationRequest])
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconcileEvery):
		case event, open := <-changes.ResultChan():
			if !open {
				return nil
			}
			if event.Type == watch.Error {
				return apierrors.FromObject(event.Object)
			}
			if m, ok := event.Object.(*metav1.PartialObjectMetadata); ok && event.Type != watch.Deleted {
				now, f.stands = m.Annotations, m.Annotations[AnnotationAnswer]
			}
		}
	}
}

// reconcile does what the annotation and the time require.
func (f *Follower) reconcile(ctx context.Context, request string) {
	if request != f.request {
		f.reacquire(ctx)
		f.request, f.answer = request, report{}
		if request != "" {
			f.answer = f.carryOut(ctx, request)
		}
	}
	f.observe()
	f.acknowledge(ctx)
}

// observe removes from the answer the GPUs that are no longer released. The node reacquires GPUs
// when their time is over, and on other requests.
func (f *Follower) observe() {
	if f.answer.State != stateReleased {
		return
	}
	of := f.answer.gpus()
	f.answer.Released = slices.DeleteFunc(f.gpus.Quiesced(), func(r node.Release) bool { return !slices.Contains(of, r.GPU) })
	if len(f.answer.Released) == 0 {
		f.answer.State = stateResumed
	}
}

// carryOut releases an order's GPUs. If the Node has an answer to this order already, this
// exporter wrote it before a restart: the GPUs are released for the rest of their time.
func (f *Follower) carryOut(ctx context.Context, request string) report {
	o, err := parseOrder(request)
	if err != nil {
		return report{ID: o.ID, State: stateFailed, Error: err.Error()}
	}
	d := time.Duration(o.Seconds) * time.Second
	var before report
	if json.Unmarshal([]byte(f.stands), &before) == nil && before.ID == o.ID {
		if before.State != stateReleased || len(before.Released) == 0 || !time.Now().Before(before.Released[0].Until) {
			return before // it has failed or is over
		}
		o.GPUs, d = before.gpus(), min(time.Until(before.Released[0].Until), node.MaxQuiesce)
	}
	done, err := f.gpus.Quiesce(ctx, o.GPUs, d)
	if err != nil {
		f.log.Warn("agent: GPUs not released for the annotation", "id", o.ID, "gpus", o.GPUs, "error", err)
		return report{ID: o.ID, State: stateFailed, Error: err.Error()}
	}
	return report{ID: o.ID, State: stateReleased, Released: done}
}

// reacquire ends the release for the annotation before its time.
func (f *Follower) reacquire(ctx context.Context) {
	gpus := f.answer.gpus()
	if len(gpus) == 0 {
		return
	}
	if err := f.gpus.Resume(ctx, gpus); err != nil {
		f.log.Warn("agent: GPUs not reacquired", "gpus", gpus, "error", err)
	}
}

// acknowledge writes the answer if the Node has another one.
func (f *Follower) acknowledge(ctx context.Context) {
	var value any // null removes it
	want := ""
	if f.answer.State != "" {
		text, _ := json.Marshal(f.answer) // strings and times: it cannot fail
		want = string(text)
		value = want
	}
	if want == f.stands {
		return
	}
	err := f.node.patchStatus(ctx, "acknowledgement", map[string]any{"metadata": map[string]any{"annotations": map[string]any{AnnotationAnswer: value}}})
	if err == nil {
		f.stands = want
	} else if !f.owed {
		f.log.Warn("agent: quiesce request not acknowledged", "error", err)
	}
	f.owed = err != nil
}
