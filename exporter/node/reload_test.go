package node

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
)

var (
	util  = counters.Field{ID: 203, Name: "DCGM_FI_DEV_GPU_UTIL", Kind: counters.Gauge, Help: "u"}
	temp  = counters.Field{ID: 150, Name: "DCGM_FI_DEV_GPU_TEMP", Kind: counters.Gauge, Help: "t"}
	clock = counters.Field{ID: 100, Name: "DCGM_FI_DEV_SM_CLOCK", Kind: counters.Gauge, Help: "c"}
)

// byHand is a node whose readings and clock come from the test.
type byHand struct {
	*Node
	t   *testing.T
	now time.Time
}

func handled(t *testing.T, fields ...counters.Field) *byHand {
	t.Helper()
	n := New(Options{Options: collect.Options{Interval: time.Second, Compat: collect.CompatOptions{Counters: fields}}, Source: &script{}})
	return &byHand{Node: n, t: t, now: time.Unix(1_800_000_000, 0)}
}

// pass is the source's next reading, of these fields of one GPU, for the given request.
func (h *byHand) pass(asked *watch, fields ...uint16) {
	h.now = h.now.Add(time.Second)
	e := collect.Entity{Kind: collect.GPU, UUID: "GPU-a"}
	slices.Sort(fields)
	for _, f := range fields {
		e.Values = append(e.Values, collect.Value{Field: f, Number: 1, Time: h.now})
	}
	h.take(&collect.Reading{Taken: h.now, Entities: []collect.Entity{e}}, asked)
	h.compile(h.now)
}

// shows checks that the page has these DCGM names, and no others.
func (h *byHand) shows(when string, want ...string) {
	h.t.Helper()
	text, _ := h.page.Load().Append(nil, h.now, false)
	var got []string
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, "{"); ok && strings.HasPrefix(name, "DCGM_") {
			got = append(got, strings.TrimPrefix(name, "DCGM_FI_DEV_"))
		}
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("%s: the page has %v, want %v", when, got, want)
	}
}

// Some of the requested fields come an interval later; the old page stays until then.
func TestReloadKeepsThePage(t *testing.T) {
	h := handled(t, util, temp)
	old := h.wants.Load()
	h.pass(old, 150, 203)
	h.shows("at first", "GPU_UTIL", "GPU_TEMP")

	h.Reload([]counters.Field{temp, clock})
	asked := h.wants.Load()
	if !h.Reloading() || !slices.Contains(asked.fields, 100) {
		t.Fatalf("the source is asked for %v", asked.fields)
	}
	h.pass(old, 150, 203)
	h.shows("a pass that had begun before", "GPU_UTIL", "GPU_TEMP")
	h.pass(asked, 100)
	h.shows("temperature is not there yet", "GPU_UTIL", "GPU_TEMP")
	if !h.Reloading() {
		t.Error("reloading is over too early")
	}
	h.pass(asked, 100, 150)
	h.shows("complete", "GPU_TEMP", "SM_CLOCK")
	if h.Reloading() {
		t.Error("reloading never ends")
	}
}

// A value that never returns is not waited for until the page is stale.
func TestReloadDoesNotWaitForEver(t *testing.T) {
	h := handled(t, temp)
	h.pass(h.wants.Load(), 150)
	h.Reload([]counters.Field{temp, clock})
	asked := h.wants.Load()
	h.pass(asked, 100)
	h.shows("one interval later", "GPU_TEMP")
	h.pass(asked, 100)
	h.shows("two intervals later", "SM_CLOCK")
}

// The last of several changes is used, and no earlier one is ever served.
func TestReloadTwice(t *testing.T) {
	h := handled(t, util)
	h.pass(h.wants.Load(), 203)
	h.Reload([]counters.Field{temp})
	between := h.wants.Load()
	h.Reload([]counters.Field{clock})
	h.pass(between, 150)
	h.shows("a reading of the one between", "GPU_UTIL")
	h.pass(h.wants.Load(), 100)
	h.shows("the last", "SM_CLOCK")
}

// Before there is a page, a reload waits for nothing.
func TestReloadBeforeTheFirstReading(t *testing.T) {
	h := handled(t, util)
	h.Reload([]counters.Field{temp})
	h.pass(h.wants.Load(), 150)
	h.shows("at first", "GPU_TEMP")
}
