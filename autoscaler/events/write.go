package events

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// written is the last Event of a key.
type written struct {
	name  string
	note  string
	count int
	at    time.Time
}

// write creates an Event, or increments the series of the last one of its key if that
// has the same note and is within seriesGap. The API does not allow changing a note.
func (r *Recorder) write(ctx context.Context, k key, t queuedEvent) {
	w := r.recall(k)
	if w != nil && w.note == t.note && t.at.Sub(w.at) < seriesGap {
		w.count, w.at = w.count+t.times, t.at
		err := r.attempt(ctx, func() error { return r.countOn(ctx, k, w) })
		if err == nil {
			r.o.Count("merged", 1)
			return
		}
		if !apierrors.IsNotFound(err) {
			r.failed(k, err)
			return
		}
	}
	r.made++
	w = &written{name: fmt.Sprintf("%s.%x%04x", stem(k.object.Name), t.at.UnixNano(), r.made&0xffff), note: t.note, count: t.times, at: t.at}
	err := r.attempt(ctx, func() error { return r.create(ctx, k, w) })
	if apierrors.IsAlreadyExists(err) { // an attempt before succeeded, its response was lost
		err = nil
	}
	if err != nil {
		r.failed(k, err)
		return
	}
	r.remember(k, w)
	r.o.Count("written", 1)
}

// stem returns a prefix of name that is valid before a dot in an Event's name.
func stem(name string) string {
	return strings.TrimRight(name[:min(len(name), maxStem)], "-.")
}

func (r *Recorder) failed(k key, err error) {
	r.o.Count("failed", 1)
	r.forget(k)
	r.o.Log.Warn("writing event failed", "kind", k.object.Kind, "namespace", k.object.Namespace, "name", k.object.Name, "reason", k.cause, "err", err)
}

// attempt retries do, with a growing pause, while its error may be temporary.
func (r *Recorder) attempt(ctx context.Context, do func() error) (err error) {
	pause := 500 * time.Millisecond
	for try := range maxTries {
		if err = do(); err == nil || final(err) || try == maxTries-1 {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		pause *= 2
	}
	return err
}

// final reports whether a retry cannot succeed.
func final(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func (r *Recorder) create(ctx context.Context, k key, w *written) error {
	event := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: w.name, Namespace: namespaceOf(k)},
		EventTime:           metav1.NewMicroTime(w.at),
		ReportingController: r.o.Controller,
		ReportingInstance:   r.o.Instance,
		Action:              k.cause,
		Reason:              k.cause,
		Regarding:           k.object,
		Note:                w.note,
		Type:                k.kind,
		Series:              seriesOf(w),
	}
	_, err := r.o.Client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	return err
}

// seriesOf returns nil for a single occurrence: the API requires series of two and more.
func seriesOf(w *written) *eventsv1.EventSeries {
	if w.count < 2 {
		return nil
	}
	return &eventsv1.EventSeries{Count: int32(min(w.count, 1<<30)), LastObservedTime: metav1.NewMicroTime(w.at)}
}

func (r *Recorder) countOn(ctx context.Context, k key, w *written) error {
	patch, err := json.Marshal(map[string]any{"series": seriesOf(w)})
	if err != nil {
		return err
	}
	_, err = r.o.Client.Events(namespaceOf(k)).Patch(ctx, w.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// namespaceOf is the namespace of an object's Events: "default" for cluster-scoped ones.
func namespaceOf(k key) string {
	if k.object.Namespace == "" {
		return corev1.NamespaceDefault
	}
	return k.object.Namespace
}

func (r *Recorder) recall(k key) *written {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[k]
}

func (r *Recorder) forget(k key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.known, k)
}

// remember stores the last Event of a key. At maxKnown it drops those that are too old
// for a series, and if none is, all of them: then new series begin.
func (r *Recorder) remember(k key, w *written) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= maxKnown {
		for old, v := range r.known {
			if w.at.Sub(v.at) >= seriesGap {
				delete(r.known, old)
			}
		}
	}
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[k] = w
}
