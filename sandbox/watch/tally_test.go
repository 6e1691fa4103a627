package watch

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/view"
)

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

func TestTallyFollowsARun(t *testing.T) {
	given := Node{Name: "a", Given: true, Ready: true, GPUs: 2}
	added := Node{Name: "b", GPUs: 2}
	ready, working, done := added, given, given
	ready.Ready = true
	working.Operation = "op-1"
	done.State = "success"
	pending := []Pod{{Key: "chat/vllm-5", Requests: map[string]int{"nvidia.com/mig-3g.40gb": 1}}}

	var ta tally
	busy := sample.Known(1, 0)
	for i, s := range []Scene{
		{Nodes: []Node{given}},
		{Nodes: []Node{given}, Pods: pending},                            // 1 s: pending
		{Nodes: []Node{working}, Pods: pending},                          // 2 s: repartition under way
		{Nodes: []Node{done}, Pods: pending},                             // 3 s: repartition done
		{Nodes: []Node{done, added}, Pods: pending},                      // 4 s: node added
		{Nodes: []Node{done, ready}},                                     // 5 s: node ready
		{Nodes: []Node{done, ready}, Pods: []Pod{{Key: "x", Node: "b"}}}, // 6 s
		{Nodes: []Node{done}},                                            // 7 s: node and pod removed
	} {
		ta.see(s, seconds(i), busy)
	}
	for name, got := range map[string][2]int{
		"repartitions begun": {ta.repartitionsBegun, 1}, "repartitions": {ta.repartitions, 1},
		"scale ups": {ta.scaleUps, 1}, "scale downs": {ta.scaleDowns, 1}, "wrong": {ta.wrongDowns, 1},
		"pending pod-seconds": {int(ta.pendingSeconds), 4}, "gpu-seconds": {int(ta.gpuSeconds), 18}, "busy": {int(ta.busySeconds), 7},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %d, want %d", name, got[0], got[1])
		}
	}
	if v, ok := ta.byRepartition.Get(); !ok || v != 2 {
		t.Errorf("first capacity by repartition after %v, %v; want 2", v, ok)
	}
	if v, ok := ta.byNode.Get(); !ok || v != 4 {
		t.Errorf("first capacity by node after %v, %v; want 4", v, ok)
	}
}

func TestARepartitionThatIsUndoneIsNoSuccess(t *testing.T) {
	n := Node{Name: "a", Given: true, Ready: true}
	undone, failed := n, n
	undone.Operation, undone.Undone = "op", true
	failed.State = "success" // of the rollback
	var ta tally
	for i, one := range []Node{n, undone, failed} {
		ta.see(Scene{Nodes: []Node{one}}, seconds(i), sample.Unknown())
	}
	if ta.repartitionsBegun != 1 || ta.repartitions != 0 {
		t.Errorf("%d begun, %d succeeded", ta.repartitionsBegun, ta.repartitions)
	}
}

func TestNothingSeenIsUnknown(t *testing.T) {
	w := &Watcher{}
	for _, m := range story.Measures() {
		if v, ok := w.Read(m); ok {
			t.Errorf("%s is %v before anything was seen", m, v)
		}
	}
}

func TestEveryMeasureIsKnownOnceSeen(t *testing.T) {
	w := &Watcher{readings: readings{queue: sample.Known(0, 0), exporters: sample.Known(4, 0)}}
	w.tally.see(Scene{}, 0, sample.Unknown())
	for _, m := range story.Measures() {
		if _, ok := w.Read(m); !ok && m != "rate" {
			t.Errorf("%s is unknown", m)
		}
	}
}

func TestSlicesAreCountedByKind(t *testing.T) {
	got := slicesOf(Scene{
		Nodes: []Node{{Allocatable: map[string]int64{"nvidia.com/mig-3g.40gb": 4, "nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 0}}},
		Pods:  []Pod{{Node: "a", Requests: map[string]int{"nvidia.com/mig-3g.40gb": 1}}, {Requests: map[string]int{"nvidia.com/gpu": 1}}},
	})
	want := []view.Slices{{Name: "gpu", Allocated: 0, Total: 2}, {Name: "3g.40gb", Allocated: 1, Total: 4}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOnlyDecidersEventsAreDecisions(t *testing.T) {
	start := time.Unix(1000, 0)
	d := decisions{start: start, seen: map[string]bool{}}
	event := func(by, reason string, at time.Time) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{UID: "1"}, Source: corev1.EventSource{Component: by}, Reason: reason,
			LastTimestamp:  metav1.NewTime(at),
			InvolvedObject: corev1.ObjectReference{Kind: "HorizontalPodAutoscaler", Namespace: "chat", Name: "vllm"},
		}
	}
	d.take(event("kube-scheduler", "Scheduled", start.Add(time.Second)))
	d.take(event("horizontal-pod-autoscaler", "SuccessfulRescale", start.Add(-time.Minute)))
	d.take(event("horizontal-pod-autoscaler", "SuccessfulRescale", start.Add(time.Second)))
	d.take(event("horizontal-pod-autoscaler", "SuccessfulRescale", start.Add(time.Second)))
	got := d.drain()
	if len(got) != 1 || got[0].Subject != "chat/vllm" || got[0].What != "replicas" || got[0].At != time.Second {
		t.Errorf("got %+v", got)
	}
	if len(d.drain()) != 0 {
		t.Error("a decision came twice")
	}
}
