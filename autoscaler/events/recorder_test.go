package events

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscale/gpuscale/autoscaler/api/scheme"
)

// rig is a running Recorder with a fake API server, in virtual time.
type rig struct {
	*Recorder
	client *fake.Clientset

	mu     sync.Mutex
	counts map[string]int
}

func (d *rig) count(result string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[result]
}

func open(t *testing.T, change func(o *Options), prepare func(c *fake.Clientset)) *rig {
	t.Helper()
	d := &rig{client: fake.NewClientset(), counts: map[string]int{}}
	if prepare != nil {
		prepare(d.client)
	}
	o := Options{Client: d.client.EventsV1(), Scheme: scheme.New(), Controller: "gpuscale-autoscaler", Instance: "one",
		Count: func(result string, n int) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.counts[result] += n
		}}
	if change != nil {
		change(&o)
	}
	d.Recorder = New(o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return d
}

func (d *rig) all(t *testing.T) []eventsv1.Event {
	t.Helper()
	list, err := d.client.EventsV1().Events("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7"}}
}

// TestSeries: repeated notes are one Event with a series; another note, and the same note
// after seriesGap, are a new Event.
func TestSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, nil)
		record := func(note string) {
			d.Event(pod("a"), corev1.EventTypeWarning, "QuotaExceeded", note)
			synctest.Wait()
		}
		record("8/8")
		if all := d.all(t); len(all) != 1 || all[0].Series != nil || all[0].Note != "8/8" || all[0].Regarding.UID != "uid-a" || all[0].Regarding.ResourceVersion != "" {
			t.Fatalf("wrote %+v", all)
		}
		time.Sleep(10 * time.Minute)
		record("8/8")
		time.Sleep(10 * time.Minute)
		record("8/8")
		if all := d.all(t); len(all) != 1 || all[0].Series == nil || all[0].Series.Count != 3 {
			t.Fatalf("wrote %+v", all)
		}
		record("9/8")
		time.Sleep(2 * seriesGap)
		record("9/8")
		if n := len(d.all(t)); n != 3 {
			t.Errorf("%d Events, want 3", n)
		}
	})
}

// TestAFloodIsBounded: ten thousand Events of one pod are a few writes; Events of many
// pods are written at the rate, and dropped and counted beyond maxQueued. Recording never
// blocks.
func TestAFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(o *Options) { o.Rate, o.Burst = 10, 10 }, nil)
		for i := range 10000 {
			d.Event(pod("a"), corev1.EventTypeNormal, "WaitRepartition", fmt.Sprint("in ", i))
		}
		time.Sleep(time.Second) // for the rate to let the last note through
		synctest.Wait()
		all := d.all(t)
		last := all[len(all)-1]
		if len(all) > 12 || last.Note != "in 9999" {
			t.Errorf("%d Events, the last %q", len(all), last.Note)
		}
		for i := range maxQueued + 500 {
			d.Event(pod(fmt.Sprint("p", i)), corev1.EventTypeNormal, "NoPoolFits", "no")
		}
		synctest.Wait()
		if d.count("dropped") == 0 {
			t.Error("nothing was dropped")
		}
		before := len(d.all(t))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(d.all(t)) - before; n < 90 || n > 111 {
			t.Errorf("%d Events in ten seconds at ten a second", n)
		}
	})
}

// TestRetries: an API server that is unavailable for a moment loses no Event; a final
// error is not retried; a deleted Event is created again; there is no pause after the
// last attempt.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Pointer[error]
		var tries atomic.Int32
		refused := errors.New("connection refused")
		fail.Store(&refused)
		d := open(t, nil, func(c *fake.Clientset) {
			c.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
				tries.Add(1)
				if err := fail.Load(); err != nil {
					return true, nil, *err
				}
				return false, nil, nil
			})
		})
		d.Event(pod("a"), corev1.EventTypeNormal, "NoPoolFits", "no")
		synctest.Wait()
		fail.Store(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(d.all(t)); n != 1 || tries.Load() != 2 {
			t.Fatalf("%d Events after %d attempts", n, tries.Load())
		}
		gone := d.all(t)[0]
		if err := d.client.EventsV1().Events("chat").Delete(t.Context(), gone.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		d.Event(pod("a"), corev1.EventTypeNormal, "NoPoolFits", "no")
		synctest.Wait()
		if n := len(d.all(t)); n != 1 {
			t.Errorf("%d Events after the first was deleted", n)
		}
		var forbidden error = apierrors.NewForbidden(eventsv1.Resource("events"), "x", errors.New("namespace is being deleted"))
		tries.Store(0)
		fail.Store(&forbidden)
		d.Event(pod("b"), corev1.EventTypeNormal, "NoPoolFits", "no")
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries.Load() != 1 || d.count("failed") != 1 {
			t.Errorf("%d attempts at a forbidden write, %d failed", tries.Load(), d.count("failed"))
		}
		fail.Store(&refused)
		d.Event(pod("c"), corev1.EventTypeNormal, "NoPoolFits", "no")
		time.Sleep(3500*time.Millisecond + time.Millisecond) // half a second, one and two between four attempts
		synctest.Wait()
		if d.count("failed") != 2 {
			t.Error("it pauses after its last attempt")
		}
	})
}

// TestValidEvents: long notes and long names are truncated to what the API server accepts.
// Events of nodes are in the namespace where kubectl looks for them.
func TestValidEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, nil)
		long := strings.Repeat("a", maxStem-1)
		for _, name := range []string{long + "-" + "tail", long + "." + "tail", "short"} {
			d.Event(pod(name), corev1.EventTypeNormal, "NoPoolFits", strings.Repeat("∞", 2000))
		}
		d.Event(pod("broken"), corev1.EventTypeNormal, "NoPoolFits", "half a rune \xe2\x88")
		d.Eventf(&corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: "n1", UID: "n1"}, corev1.EventTypeNormal, "Drained", "%d pods", 3)
		synctest.Wait()
		all := d.all(t)
		if len(all) != 5 {
			t.Fatalf("%d Events", len(all))
		}
		if !slices.ContainsFunc(all, func(e eventsv1.Event) bool {
			return e.Namespace == "default" && e.Note == "3 pods" && strings.HasPrefix(e.Name, "n1.")
		}) {
			t.Error("no Event of the node in namespace default")
		}
		for _, e := range all {
			if wrong := validation.IsDNS1123Subdomain(e.Name); len(wrong) > 0 {
				t.Errorf("%s: %s", e.Name, wrong)
			}
			if len(e.Note) > 1024 || !utf8.ValidString(e.Note) {
				t.Errorf("note of %d bytes, valid %v", len(e.Note), utf8.ValidString(e.Note))
			}
		}
	})
}
