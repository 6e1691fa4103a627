package events

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typed "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"
)

// Defaults and bounds of a Recorder.
const (
	defaultRate  = 20   // Events a second
	defaultBurst = 100  // at once
	maxQueued    = 4096 // (object, type, reason) triples to be written
	maxKnown     = 32768
	// seriesGap is the longest time between occurrences in one series: the API server
	// deletes Events after an hour.
	seriesGap = 40 * time.Minute
	maxTries  = 4
	// maxNote is the API's bound on an Event's note, in bytes. maxStem bounds the part of
	// the object's name in the Event's name, which may have 253 bytes in total.
	maxNote = 1024
	maxStem = 200
)

// Options of a Recorder. Client, Scheme, Controller and Instance are required.
type Options struct {
	Client typed.EventsV1Interface
	Scheme *runtime.Scheme
	// Controller is the name of the program, Instance that of its replica.
	Controller, Instance string
	// Rate is how many Events a second are written, Burst how many at once; 0 for
	// 20 and 100.
	Rate, Burst int
	// Count is called with the result of each Event: "written", "merged" with a queued
	// or a written one, "dropped" from a full queue, "failed". May be nil.
	Count func(result string, n int)
	Log   *slog.Logger // nil: none
}

// Recorder queues Events and writes them while Run runs. It is safe for concurrent use,
// and recording never blocks.
type Recorder struct {
	o     Options
	limit flowcontrol.RateLimiter
	made  int // Events created, for unique names; only Run uses it

	mu     sync.Mutex
	order  []key
	queued map[key]*queuedEvent
	known  map[key]*written
	wake   chan struct{}
}

// key identifies a series of Events.
type key struct {
	object      corev1.ObjectReference
	kind, cause string // Normal or Warning, and the reason
}

// queuedEvent is an Event to be written.
type queuedEvent struct {
	note  string    // of the last occurrence
	at    time.Time // of the last occurrence
	times int
}

var _ record.EventRecorder = (*Recorder)(nil)

// New returns a Recorder that writes nothing until Run is called.
func New(o Options) *Recorder {
	if o.Rate == 0 {
		o.Rate = defaultRate
	}
	if o.Burst == 0 {
		o.Burst = defaultBurst
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Count == nil {
		o.Count = func(string, int) {}
	}
	return &Recorder{o: o, limit: flowcontrol.NewTokenBucketRateLimiter(float32(o.Rate), o.Burst),
		queued: map[key]*queuedEvent{}, known: map[key]*written{}, wake: make(chan struct{}, 1)}
}

// Event implements record.EventRecorder. Events of one key that are still queued are
// merged; the last message is written.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	ref, err := reference.GetReference(r.o.Scheme, object)
	if err != nil {
		r.o.Log.Warn("event object has no reference", "reason", reason, "err", err)
		r.o.Count("failed", 1)
		return
	}
	message = truncate(message)
	about := *ref
	about.ResourceVersion = "" // Events of one object share a key
	k := key{about, eventType, reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.queued[k]; t != nil {
		t.note, t.at = message, time.Now()
		t.times++
		r.o.Count("merged", 1)
		return
	}
	if len(r.queued) >= maxQueued {
		r.o.Count("dropped", 1)
		return
	}
	r.queued[k] = &queuedEvent{note: message, at: time.Now(), times: 1}
	r.order = append(r.order, k)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// truncate shortens a note to maxNote: the API server rejects Events with longer ones.
func truncate(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxNote {
		return text
	}
	const more = " …"
	return strings.ToValidUTF8(text[:maxNote-len(more)], "") + more
}

// Eventf implements record.EventRecorder.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder. It drops the annotations, which would
// keep Events from being merged.
func (r *Recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

// Run writes queued Events, oldest first and at most at the rate, until ctx ends. It
// returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		if !r.pending() {
			select {
			case <-ctx.Done():
				return nil
			case <-r.wake:
			}
			continue
		}
		if r.limit.Wait(ctx) != nil {
			return nil
		}
		k, t := r.next() // after the wait, so that later Events are merged
		r.write(ctx, k, t)
	}
}

func (r *Recorder) pending() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order) > 0
}

// next removes the oldest Event from the queue, which must not be empty.
func (r *Recorder) next() (key, queuedEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.order[0]
	r.order = r.order[1:]
	t := *r.queued[k]
	delete(r.queued, k)
	return k, t
}
