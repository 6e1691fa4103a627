package events

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	typed "k8s.io/client-go/kubernetes/typed/events/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/flowcontrol"
)

// Bounds of a Recorder that its Options leave open.
const (
	defaultRate  = 20   // Events a second
	defaultBurst = 100  // at once
	maxWaiting   = 4096 // (object, type, reason) triples that wait to be written
	maxKnown     = 32768
	// seriesGap is how long an Event may be silent and still be the same story: the
	// API server forgets Events after an hour.
	seriesGap = 40 * time.Minute
	maxTries  = 4
	// maxNote is what the API takes of an Event's note, in bytes, and maxStem what of an
	// object's name goes into its Event's, which may have 253 with what comes after.
	maxNote = 1024
	maxStem = 200
)

// Options of a Recorder. Client, Scheme, Controller and Instance are required.
type Options struct {
	Client typed.EventsV1Interface
	Scheme *runtime.Scheme
	// Controller and Instance say who tells: the program, and which one of it.
	Controller, Instance string
	// Rate is how many Events a second are written, Burst how many at once; 0 for
	// 20 and 100.
	Rate, Burst int
	// Count is told of each Event what became of it: "written", "merged" with one
	// that waits or is known, "dropped" since too many wait, "failed". May be nil.
	Count func(result string, n int)
	Log   *slog.Logger     // nil: silent
	Now   func() time.Time // nil: time.Now
}

// Recorder takes Events and writes them while Run runs. It is safe for concurrent
// use and never blocks who tells it something.
type Recorder struct {
	o     Options
	limit flowcontrol.RateLimiter
	made  int // Events so far, for their names; Run's own

	mu      sync.Mutex
	order   []key
	waiting map[key]*told
	known   map[key]*written
	wake    chan struct{}
}

// key is what makes two Events news about the same.
type key struct {
	object      corev1.ObjectReference
	kind, cause string // Normal or Warning, and the reason
}

// told is an Event that waits to be written.
type told struct {
	note  string
	at    time.Time // of the last time
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
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Count == nil {
		o.Count = func(string, int) {}
	}
	return &Recorder{o: o, limit: flowcontrol.NewTokenBucketRateLimiter(float32(o.Rate), o.Burst),
		waiting: map[key]*told{}, known: map[key]*written{}, wake: make(chan struct{}, 1)}
}

// Event implements record.EventRecorder. What is said again before it was written
// is written once, in its last words.
func (r *Recorder) Event(object runtime.Object, eventType, reason, message string) {
	ref, err := reference.GetReference(r.o.Scheme, object)
	if err != nil {
		r.o.Log.Warn("an Event is about nothing that is known", "reason", reason, "err", err)
		r.o.Count("failed", 1)
		return
	}
	message = cut(message)
	about := *ref
	about.ResourceVersion = "" // no part of who it is about
	k := key{about, eventType, reason}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.waiting[k]; t != nil {
		t.note, t.at = message, r.o.Now()
		t.times++
		r.o.Count("merged", 1)
		return
	}
	if len(r.waiting) >= maxWaiting {
		r.o.Count("dropped", 1)
		return
	}
	r.waiting[k] = &told{note: message, at: r.o.Now(), times: 1}
	r.order = append(r.order, k)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// cut is what of a text fits into an Event: the API server refuses longer ones whole.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= maxNote {
		return text
	}
	const more = " …"
	text = text[:maxNote-len(more)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + more
}

// Eventf implements record.EventRecorder.
func (r *Recorder) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	r.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf implements record.EventRecorder. Annotations are left out: they
// would make Events differ that are the same.
func (r *Recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	r.Eventf(object, eventType, reason, format, args...)
}

// Run writes what is told, oldest first and not faster than the rate, until ctx
// ends. It always returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		if !r.something() {
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
		k, t := r.next() // only now: the last words count
		r.write(ctx, k, t)
	}
}

func (r *Recorder) something() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.order) > 0
}

// next takes the Event that has waited longest; there is one.
func (r *Recorder) next() (key, told) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.order[0]
	r.order = r.order[1:]
	t := *r.waiting[k]
	delete(r.waiting, k)
	return k, t
}
