package events

import (
	"context"
	"errors"
	"fmt"
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

// desk is a Recorder at work on a fake API server, in a bubble of its own time.
type desk struct {
	*Recorder
	client *fake.Clientset

	mu     sync.Mutex
	counts map[string]int
}

func (d *desk) count(result string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.counts[result]
}

func open(t *testing.T, change func(o *Options), prepare func(c *fake.Clientset)) *desk {
	t.Helper()
	d := &desk{client: fake.NewClientset(), counts: map[string]int{}}
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

func (d *desk) all(t *testing.T) []eventsv1.Event {
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

// TestTheSameIsASeries: what is said again in the same words is one Event that
// counts; other words, and the same words much later, are another.
func TestTheSameIsASeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, nil)
		say := func(note string) {
			d.Event(pod("a"), corev1.EventTypeWarning, "QuotaExceeded", note)
			synctest.Wait()
		}
		say("8/8")
		if all := d.all(t); len(all) != 1 || all[0].Series != nil || all[0].Note != "8/8" || all[0].Regarding.UID != "uid-a" || all[0].Regarding.ResourceVersion != "" {
			t.Fatalf("wrote %+v", all)
		}
		time.Sleep(10 * time.Minute)
		say("8/8")
		time.Sleep(10 * time.Minute)
		say("8/8")
		if all := d.all(t); len(all) != 1 || all[0].Series == nil || all[0].Series.Count != 3 {
			t.Fatalf("wrote %+v", all)
		}
		say("9/8")
		time.Sleep(2 * seriesGap)
		say("9/8")
		if n := len(d.all(t)); n != 3 {
			t.Errorf("%d Events, want 3", n)
		}
	})
}

// TestAFloodIsBounded: ten thousand tellings about one pod are a few writes, those
// about very many are written at the rate, and beyond what may wait they are dropped
// and counted. Who tells never waits.
func TestAFloodIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, func(o *Options) { o.Rate, o.Burst = 10, 10 }, nil)
		for i := range 10000 {
			d.Event(pod("a"), corev1.EventTypeNormal, "WaitRepartition", fmt.Sprint("in ", i))
		}
		time.Sleep(time.Second) // for the rate to let the last words through
		synctest.Wait()
		all := d.all(t)
		last := all[len(all)-1]
		if len(all) > 12 || last.Note != "in 9999" {
			t.Errorf("%d Events, the last %q", len(all), last.Note)
		}
		for i := range maxWaiting + 500 {
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

// TestTroubleIsTriedAgain: an API server that is away for a moment loses no Event;
// one that says no is asked once; an Event that is gone begins anew.
func TestTroubleIsTriedAgain(t *testing.T) {
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
			t.Fatalf("%d Events after %d tries", n, tries.Load())
		}
		gone := d.all(t)[0]
		if err := d.client.EventsV1().Events("chat").Delete(t.Context(), gone.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		d.Event(pod("a"), corev1.EventTypeNormal, "NoPoolFits", "no")
		synctest.Wait()
		if n := len(d.all(t)); n != 1 {
			t.Errorf("%d Events after the first had gone", n)
		}
		var forbidden error = apierrors.NewForbidden(eventsv1.Resource("events"), "x", errors.New("namespace is being deleted"))
		tries.Store(0)
		fail.Store(&forbidden)
		d.Event(pod("b"), corev1.EventTypeNormal, "NoPoolFits", "no")
		time.Sleep(time.Minute)
		synctest.Wait()
		if tries.Load() != 1 || d.count("failed") != 1 {
			t.Errorf("%d tries of what is forbidden, %d failed", tries.Load(), d.count("failed"))
		}
	})
}

// TestWhatHasNoNamespace: Events about nodes lie where kubectl looks for them.
func TestWhatHasNoNamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, nil)
		d.Eventf(&corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: "n1", UID: "n1"}, corev1.EventTypeNormal, "Drained", "%d pods", 3)
		synctest.Wait()
		if all := d.all(t); len(all) != 1 || all[0].Namespace != "default" || all[0].Note != "3 pods" || !strings.HasPrefix(all[0].Name, "n1.") {
			t.Errorf("wrote %+v", all)
		}
	})
}

// TestWhatTheAPIServerTakes: long words are cut rather than lost, and so are long
// names, at a place where a name may end.
func TestWhatTheAPIServerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, nil)
		long := strings.Repeat("a", maxStem-1)
		for _, name := range []string{long + "-" + "tail", long + "." + "tail", "short"} {
			d.Event(pod(name), corev1.EventTypeNormal, "NoPoolFits", strings.Repeat("∞", 2000))
		}
		d.Event(pod("broken"), corev1.EventTypeNormal, "NoPoolFits", "half a rune \xe2\x88")
		synctest.Wait()
		all := d.all(t)
		if len(all) != 4 {
			t.Fatalf("%d Events", len(all))
		}
		for _, e := range all {
			if wrong := validation.IsDNS1123Subdomain(e.Name); len(wrong) > 0 {
				t.Errorf("%s: %s", e.Name, wrong)
			}
			if len(e.Note) > 1024 || !utf8.ValidString(e.Note) {
				t.Errorf("%d bytes of words, valid %v", len(e.Note), utf8.ValidString(e.Note))
			}
		}
	})
}

// TestTheLastTryEndsIt: what has failed for the last time keeps nobody waiting.
func TestTheLastTryEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open(t, nil, func(c *fake.Clientset) {
			c.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("connection refused")
			})
		})
		d.Event(pod("a"), corev1.EventTypeNormal, "NoPoolFits", "no")
		time.Sleep(3500*time.Millisecond + time.Millisecond) // half a second, one and two between four tries
		synctest.Wait()
		if d.count("failed") != 1 {
			t.Error("it still waits after its last try")
		}
	})
}
