package view

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gpuscale/gpuscale/gpu/sample"
)

func known(v float64) sample.Value { return sample.Known(v, 0) }

func TestNothingKnownIsNotZero(t *testing.T) {
	got := Figures{At: 42 * time.Second}.line(nil)
	want := "00:42  n/a  queue n/a   TTFT p95 n/a │ replicas n/a │ n/a │ nodes n/a │ n/a"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if s := (Summary{}).text(); strings.Count(s, missing) != 8 {
		t.Errorf("a summary of nothing:\n%s", s)
	}
}

func TestLiveLine(t *testing.T) {
	f := Figures{At: 102 * time.Second, Rate: known(6.31), Queue: known(1041), TTFT: known(2.1), Replicas: known(4), Wanted: known(7),
		Slices: []Slices{{"3g.40gb", 5, 6}, {"1g.10gb", 3, 7}}, Nodes: known(2), Booting: known(1), PricePerHour: known(9.84)}
	want := "01:42  6.3 req/s  queue 1,041 ▁▄█  TTFT p95 2.1 s │ replicas 4 → 7 │ 3g.40gb 5/6  1g.10gb 3/7 │ nodes 2, 1 booting │ 9.84 $/h"
	if got := f.line([]float64{0, 5, 10}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestARepartitionIsNoLostNode(t *testing.T) {
	got := Figures{Nodes: known(4), Repartitioning: known(1), Booting: known(0)}.line(nil)
	if !strings.Contains(got, "│ nodes 4, 1 repartitioning │") {
		t.Errorf("got %s", got)
	}
}

func TestPlainViewPrintsNowAndThenAndEveryDecision(t *testing.T) {
	var b strings.Builder
	v := Plain(&b)
	for s := range 11 {
		v.Show(Figures{At: time.Duration(s) * time.Second, Queue: known(float64(s))})
	}
	v.Decide(Decision{At: 31 * time.Second, What: "repartition", Subject: "mig-b/gpu1", Reason: "NoFreeSlice", Detail: "chat/vllm-5 requests 3g"})
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 4 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("got %d lines:\n%s", len(lines), b.String())
	}
	if want := "  00:31  repartition  mig-b/gpu1           NoFreeSlice: chat/vllm-5 requests 3g"; lines[3] != want {
		t.Errorf("got  %q\nwant %q", lines[3], want)
	}
}

func TestSummary(t *testing.T) {
	got := Summary{Requests: 3412, WaitP95: known(3.84), PendingSeconds: known(96), ByRepartition: known(6), ByNode: known(31),
		GPUHours: known(1.9), Busy: known(0.62), WrongDowns: known(0), Length: 4 * time.Minute, Alerts: Alerts{Known: true},
		Took: []Stage{{"the queue grows", 12 * time.Second}}}.text()
	want := `summary   3,412 requests in 04:00 · p95 wait 3.8 s · 96 pod-seconds pending
          first capacity by repartition after 6.0 s, by a node after 31.0 s
          1.90 GPU-hours, 62 % busy · 0 wrong scale-downs
alerts    none fired
story     00:12  the queue grows
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAlerts(t *testing.T) {
	a := Alerts{Known: true, Fired: []Alert{{"GpuscaleAdapterDown", "critical"}, {"GPUThrottled", "warning"}}, Pending: []Alert{{"GPUHeldIdle", "info"}}}
	if got, want := a.text(), "fired: GpuscaleAdapterDown (critical), GPUThrottled (warning) · pending: GPUHeldIdle (info)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Alerts{}).text(); got != missing {
		t.Errorf("alerts are unknown: %q", got)
	}
}

// TestLiveLineIsPaintedOver: permanent lines are printed above the live line, and no line is wider than the
// terminal.
func TestLiveLineIsPaintedOver(t *testing.T) {
	f := Figures{At: 102 * time.Second, Rate: known(6.3), Queue: known(41), TTFT: known(2.1), Replicas: known(4), Wanted: known(7),
		Slices: []Slices{{"gpu", 3, 4}, {"3g.40gb", 5, 6}}, Nodes: known(4), Repartitioning: known(1), PricePerHour: known(26.08)}
	var b strings.Builder
	v := &View{out: &b, live: true, color: true, width: func() int { return 80 }}
	v.Show(f)
	v.Decide(Decision{At: 31 * time.Second, What: "repartition", Subject: "mig-b/gpu1", Reason: "NoFreeSlice"})
	v.Close()
	const painted = "01:42  6.3 req/s  queue 41 █  TTFT p95 2.1 s │ replicas 4 → 7\n       gpu 3/4  3g.40gb 5/6 │ nodes 4, 1 repartitioning │ 26.08 $/h"
	const cleared = "\r\x1b[K\x1b[A\x1b[K"
	want := painted + cleared + "\x1b[36m  00:31  repartition  mig-b/gpu1           NoFreeSlice\x1b[0m\n" + painted + cleared
	if got := b.String(); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	for width := 10; width < 200; width++ {
		for _, line := range stack(f.line([]float64{41}), width) {
			if utf8.RuneCountInString(line) > width {
				t.Errorf("at %d columns: %q", width, line)
			}
		}
	}
}
