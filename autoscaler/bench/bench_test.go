package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/internal/prom"
)

var start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }

// TestAnswered: a pod waits for the call after which there are cards for it and all
// that waited before it, not for the first there is.
func TestAnswered(t *testing.T) {
	lives := []life{
		{name: "late", cards: 8, pending: at(1)}, {name: "first", cards: 8, pending: at(0)}, {name: "second", cards: 4, pending: at(.5)},
		{name: "never", cards: 8},
	}
	for name, each := range map[string]struct {
		calls    []call
		waits    []float64
		unneeded int
	}{
		"one call for all":    {[]call{{at(2), "p", 0, 3}}, []float64{2, 1.5, 1}, 0},
		"one node at a time":  {[]call{{at(1), "p", 0, 1}, {at(3), "p", 1, 2}, {at(4), "p", 2, 3}}, []float64{1, 2.5, 3}, 0},
		"two pools":           {[]call{{at(1), "p", 0, 1}, {at(2), "q", 0, 2}}, []float64{1, 1.5, 1}, 0},
		"room before it came": {[]call{{at(.7), "p", 0, 3}}, []float64{.7, .2}, 1},
		"too few":             {[]call{{at(1), "p", 0, 1}}, []float64{1}, 0},
		"none":                {nil, nil, 0},
	} {
		waits, unneeded := answered(lives, each.calls)
		if !slices.EqualFunc(waits, each.waits, func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }) || unneeded != each.unneeded {
			t.Errorf("%s: waited %v, %d needed none; want %v, %d", name, waits, unneeded, each.waits, each.unneeded)
		}
	}
}

// TestBound: the mix is the one that cluster-autoscaler was measured with.
func TestBound(t *testing.T) {
	for pods, nodes := range map[int]int{1: 1, 20: 11, 200: 113, 500: 281, 2000: 1125} {
		if got := bound(pods); got != nodes {
			t.Errorf("%d pods need %d nodes, want %d", pods, got, nodes)
		}
	}
}

func TestParse(t *testing.T) {
	for args, wrong := range map[string]string{
		"": "", "-quick": "", "-nodes 7500 -pods 20,20 -o json -idle 0s": "",
		"-pods 20,10": "ascending", "-pods x": "ascending", "-nodes 0": "-nodes", "-pools 0": "-pools", "-surplus -1": "negative",
		"-o yaml": "table or json", "-scheduler fast": "pack or spread", "-what": "not defined",
	} {
		_, err := parse(strings.Fields(args), io.Discard)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%q: %v, want %q in it", args, err, wrong)
		}
	}
}

// TestReport: a figure above its goal is missed, in the table, in JSON and in words.
func TestReport(t *testing.T) {
	r := report{Nodes: 3}
	r.add("idle", "processor", 0.02, "core", atMost(0.01), "0.011")
	r.add("idle", "resident", 90, "MiB", nil, "")
	r.note("a note")
	r.add("20 pods", "calls", 1, "", atMost(1), "13")
	r.fail("gang", "nobody says why")
	var table, text bytes.Buffer
	if err := errors.Join(r.print(&table, "table"), r.print(&text, "json")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"MISSED", "a note", "≤ 0.01", "0.011", "nobody says why"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("no %q in\n%s", want, table.String())
		}
	}
	var back report
	if err := json.Unmarshal(text.Bytes(), &back); err != nil || len(back.Figures) != 4 || !back.Figures[0].Missed || back.Figures[2].Missed {
		t.Errorf("%v: %+v", err, back)
	}
	want := []string{"idle: processor: 0.02 core, not at most 0.01", "gang: nobody says why"}
	if missed := r.missed(); !slices.Equal(missed, want) {
		t.Errorf("missed %q, want %q", missed, want)
	}
}

// TestExportersAreBelieved: the autoscaler's own reader finds every card and holder
// that the double has been told of, and none that has gone.
func TestExportersAreBelieved(t *testing.T) {
	e, err := startExporters()
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	pod := podOf("a", whole, 3)
	pod.Spec.NodeName = "n"
	cut := podOf("b", one, 2)
	cut.Spec.NodeName = "m"
	e.add(nodeOf("n", "p"))
	e.add(cutNodeOf("m", "p"))
	e.hold(pod)
	e.hold(cut)
	held := func() (cards, instances int) {
		t.Helper()
		read, err := prom.New(prom.Config{URL: e.URL, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		r, err := observe.Read(t.Context(), read, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if r.Taken.IsZero() {
			t.Error("a reading without a time")
		}
		v, err := read.Query(t.Context(), "gpu_held", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range v {
			if s.Labels.Get("gpu_instance_id") != "" {
				instances++
			} else {
				cards++
			}
		}
		return cards, instances
	}
	if cards, instances := held(); cards != 3 || instances != 2 {
		t.Errorf("%d cards and %d instances are held", cards, instances)
	}
	e.release(pod)
	e.remove("m")
	if cards, instances := held(); cards != 0 || instances != 0 {
		t.Errorf("%d cards and %d instances are held once all is gone", cards, instances)
	}
}

// TestSeen: times are those of the first time a watch shows something.
func TestSeen(t *testing.T) {
	e, err := startExporters()
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	s := newSeen(e)
	p := podOf("a", whole, 3)
	s.sawPod(p)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulingGated"}}
	s.sawPod(p)
	if l := s.lives(of("a"))[0]; l.cards != 3 || !l.pending.IsZero() {
		t.Errorf("a gated pod is pending: %+v", l)
	}
	p.Status.Conditions[0].Reason = corev1.PodReasonUnschedulable
	s.sawPod(p)
	first := s.lives(of("a"))[0].pending
	s.sawPod(p)
	p.Spec.NodeName, p.Status.Phase = "n", corev1.PodRunning
	s.sawNode(nodeOf("n", "p"))
	s.sawPod(p)
	if l := s.lives(of("a"))[0]; first.IsZero() || !l.pending.Equal(first) || l.bound.IsZero() || l.running.IsZero() {
		t.Errorf("%+v, pending first at %s", l, first)
	}
	s.lostPod(p)
	if left := s.lives(of("a")); len(left) != 0 {
		t.Errorf("%+v", left)
	}
	s.sawPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "a"}})
	if left := s.lives(of("a")); len(left) != 0 {
		t.Errorf("a pod that is none of ours: %+v", left)
	}
}

// TestEach: all are done, at most so many at a time, and the first error ends it.
func TestEach(t *testing.T) {
	var done, now, most atomic.Int64
	if err := each(t.Context(), 100, func(int) error {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		done.Add(1)
		now.Add(-1)
		return nil
	}); err != nil || done.Load() != 100 || most.Load() > workers {
		t.Errorf("%v: %d done, %d at a time", err, done.Load(), most.Load())
	}
	broken := errors.New("broken")
	if err := each(t.Context(), 100, func(i int) error {
		if i == 3 {
			return broken
		}
		return nil
	}); !errors.Is(err, broken) {
		t.Errorf("err %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := each(ended, 100, func(int) error { return nil }); err == nil {
		t.Error("no error of a context that has ended")
	}
}

const audit = `{"stage":"ResponseStarted","verb":"watch","requestReceivedTimestamp":"2026-11-21T09:00:01.000000Z","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"watch","requestReceivedTimestamp":"2026-11-21T09:00:01.000000Z","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"patch","requestReceivedTimestamp":"2026-11-21T09:00:02.000000Z","objectRef":{"resource":"nodes","subresource":"status"}}
{"stage":"ResponseComplete","verb":"get","requestReceivedTimestamp":"2026-11-21T09:01:00.000000Z","objectRef":{"resource":"pods"}}
{"stage":"ResponseComp`

// TestAudit: a watch counts once, what lies outside the time does not, and a line that
// is still being written is left for later.
func TestAudit(t *testing.T) {
	got, err := readAudit(strings.NewReader(audit), start, start.Add(time.Minute))
	if err != nil || len(got) != 2 || got["watch pods"] != 1 || got["patch nodes/status"] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := readAudit(strings.NewReader("no JSON\n"), start, start); err == nil {
		t.Error("no error of what is no audit log")
	}
}

func FuzzAudit(f *testing.F) {
	f.Add(audit)
	f.Add("{}\n[]\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readAudit(strings.NewReader(text), time.Time{}, start)
		if err != nil && got != nil {
			t.Error("both an answer and an error")
		}
		if n := got.sum(func(string) bool { return true }); n > strings.Count(text, "\n") {
			t.Errorf("%d requests in %d lines", n, strings.Count(text, "\n"))
		}
	})
}
