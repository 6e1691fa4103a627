package agent

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

var start = time.Unix(1_800_000_000, 0)

func reading(xids ...int) *collect.Reading {
	r := &collect.Reading{Taken: start}
	for i, xid := range xids {
		r.Entities = append(r.Entities, collect.Entity{Kind: collect.GPU, GPU: i, UUID: "GPU-" + string(rune('a'+i)),
			Values: []collect.Value{{Field: 230, Number: float64(xid), Time: start}}})
	}
	return r
}

// teller calls a reporter every second for a while.
type teller struct {
	*Reporter
	kube  *kube
	now   time.Time
	read  *collect.Reading
	ready error
}

func newTeller(t *testing.T, k *kube) *teller {
	x := &teller{kube: k, now: start}
	x.Reporter = NewReporter(k.api(), "node-1", func() *collect.Reading { return x.read }, func() error { return x.ready }, func(string, error) {}, discard())
	return x
}

func (x *teller) run(t *testing.T, d time.Duration) {
	for end := x.now.Add(d); x.now.Before(end); x.now = x.now.Add(time.Second) {
		x.step(t.Context(), x.now)
	}
}

func (x *teller) condition() string {
	n := len(x.kube.conditions)
	if n == 0 {
		return ""
	}
	c := x.kube.conditions[n-1]
	return c["status"].(string) + " " + c["reason"].(string) + " " + c["message"].(string)
}

func TestCondition(t *testing.T) {
	k := newKube(t)
	x := newTeller(t, k)
	x.read = reading(0, 0)
	x.run(t, goodAfter)
	if got := x.condition(); got != "" {
		t.Errorf("before it has lasted: %s", got)
	}
	x.run(t, 2*time.Second)
	if got := x.condition(); !strings.HasPrefix(got, "True AllGPUsHealthy 2 of 2") || len(k.events) != 0 {
		t.Errorf("healthy: %s, events %v", got, k.events)
	}
	// A GPU that is unhealthy for a moment changes nothing.
	x.read = reading(0, 79)
	x.run(t, badAfter/2)
	x.read = reading(0, 0)
	x.run(t, time.Minute)
	if got := x.condition(); !strings.HasPrefix(got, "True") || k.patches != 1 {
		t.Errorf("after a moment: %s in %d patches", got, k.patches)
	}
	x.read = reading(0, 79)
	x.run(t, badAfter+2*time.Second)
	if got := x.condition(); got != "False GPUsUnhealthy GPU 1 (GPU-b): xid_79" || len(k.events) != 1 || k.events[0]["type"] != "Warning" || k.events[0]["message"] != "GPU 1 (GPU-b): xid_79" {
		t.Errorf("unhealthy: %s, events %v", got, k.events)
	}
	transition := k.conditions[len(k.conditions)-1]["lastTransitionTime"]
	x.run(t, 2*heartbeat)
	last := k.conditions[len(k.conditions)-1]
	if len(k.events) != 1 || k.patches != 4 || last["lastTransitionTime"] != transition || last["lastHeartbeatTime"] == transition {
		t.Errorf("two heartbeats later: %d patches, %d events, %v", k.patches, len(k.events), last)
	}
	x.read = reading(0, 0)
	x.run(t, goodAfter+2*time.Second)
	if got := x.condition(); !strings.HasPrefix(got, "True") || len(k.events) != 2 || k.events[1]["type"] != "Normal" {
		t.Errorf("well again: %s, events %v", got, k.events)
	}
	x.ready = errors.New("the newest reading is 9s old: DCGM does not answer")
	x.run(t, unknownAfter+2*time.Second)
	if got := x.condition(); !strings.HasPrefix(got, "Unknown HealthUnknown the newest reading") {
		t.Errorf("unknown health: %s", got)
	}
	for _, call := range k.calls {
		switch call {
		case "GET /api/v1/nodes/node-1", "PATCH /api/v1/nodes/node-1/status", "POST /api/v1/namespaces/default/events":
		default:
			t.Errorf("the API was asked for %s", call)
		}
	}
}

// A restart finds the condition on the node and writes nothing new.
func TestConditionAfterRestart(t *testing.T) {
	k := newKube(t)
	first := newTeller(t, k)
	first.read = reading(79)
	first.run(t, time.Minute)
	transition := k.conditions[0]["lastTransitionTime"]
	second := newTeller(t, k)
	second.now = start.Add(time.Hour)
	second.read = reading(79)
	second.run(t, time.Minute)
	if last := k.conditions[len(k.conditions)-1]; len(k.events) != 1 || last["lastTransitionTime"] != transition || k.patches < 2 {
		t.Errorf("%d events, %d patches, %v; the transition was at %v", len(k.events), k.patches, last, transition)
	}
}

func TestConditionWhileTheAPIServerIsAway(t *testing.T) {
	k := newKube(t)
	k.refuse = http.StatusServiceUnavailable
	x := newTeller(t, k)
	x.read = reading(79)
	x.run(t, 10*time.Minute)
	tries := 0
	for _, call := range k.calls {
		if strings.HasPrefix(call, "PATCH") {
			tries++
		}
	}
	if most := int(10*time.Minute/retryWrite) + 1; tries < 2 || tries > most {
		t.Errorf("%d tries in ten minutes, want at most %d", tries, most)
	}
	k.refuse = 0
	x.run(t, retryWrite+time.Second)
	if got := x.condition(); !strings.HasPrefix(got, "False") || len(k.events) != 1 {
		t.Errorf("when it is back: %s, events %v", got, k.events)
	}
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		gpus []collect.GPUHealth
		want string
	}{
		{nil, "Unknown"},
		{[]collect.GPUHealth{{}}, "Unknown"},
		{[]collect.GPUHealth{{Known: true, Reason: "ok"}, {}}, "True"},
		{[]collect.GPUHealth{{Known: true, Reason: "ok"}, {Known: true, Reason: "lost"}}, "False"},
	} {
		if got := judge(c.gpus, nil); string(got.Status) != c.want {
			t.Errorf("%+v: %+v, want %s", c.gpus, got, c.want)
		}
	}
}
