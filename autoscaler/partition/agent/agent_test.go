package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/autoscaler/partition"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/fakenvml"
)

// TestCutsAroundBusy: idle instances go, exact places come, the busy one keeps
// running, the exporter lets go and comes back, the device plugin looks again.
func TestCutsAroundBusy(t *testing.T) {
	b := newBench(t, h100(t, 0, "!3g.40gb@0 1g.10gb@4 1g.10gb@5 1g.10gb@6"), h100(t, 1, "!7g.80gb@0"))
	b.order("3g.40gb@0 1g.10gb@4 1g.10gb@5 1g.10gb@6", "3g.40gb@0 3g.40gb@4")
	b.tick()
	if got := b.layout(); got != "3g.40gb@0 3g.40gb@4" {
		t.Errorf("layout %s", got)
	}
	if busy := b.machine().Cards[0].Instances[0]; busy.UUID != "MIG-0-was-0" || busy.PID == 0 {
		t.Errorf("the busy instance is now %+v", busy)
	}
	if a := b.answer(); a.State != partition.AgentDone || a.ID != "op-1" {
		t.Errorf("answer %+v", a)
	}
	want := []string{"working: destroy 1g@4:1", "working: destroy 1g@5:1", "working: destroy 1g@6:1", "working: create 3g@4:4",
		"working: restart the device plugin", "delete plugin-0", "done: restart the device plugin", "write gpuscale.io/mig-layout"}
	if got := b.api.writes(); !slices.Equal(got[:7], want[:7]) {
		t.Errorf("writes %q, want %q", got, want)
	}
	if b.exporter.asked != 2 || b.exporter.isQuiet("GPU-0") {
		t.Errorf("the exporter was asked %d times, quiet %v", b.exporter.asked, b.exporter.quiet)
	}
	r := b.report()
	if r.Problem != "" || len(r.Cards) != 2 || r.Cards[0].Instances[0].Holder != "pid 1000" || r.Cards[0].Instances[1].Place != "3g@4:4" || r.Cards[0].Instances[1].Since == nil {
		t.Errorf("report %+v", r)
	}
	if specs, err := partition.ParseTables(b.api.get(partition.TableAnnotation)); err != nil || len(specs) != 1 || specs[0].Model != "H100-80GB" {
		t.Errorf("tables %v: %v", specs, err)
	}
	// Nothing more is done about it, and the diary goes with the record.
	n := len(b.api.writes())
	b.tick()
	b.api.set(partition.RecordAnnotation, "")
	b.tick()
	if got := b.api.writes()[n:]; !slices.Equal(got, []string{"remove gpuscale.io/mig-agent"}) {
		t.Errorf("then: %q", got)
	}
}

// TestRefuses: what must not be begun leaves the card as it was, and says why.
func TestRefuses(t *testing.T) {
	const before = "1g.10gb@0 1g.10gb@1"
	for name, test := range map[string]struct {
		change func(*bench)
		target string
		why    string
	}{
		"busy instance":           {nil, "3g.40gb@4", "1g@0:1 is busy"},
		"given to a pod":          {func(b *bench) { b.kubelet.give("MIG-0-was-1::3", "p") }, "1g.10gb@0", "1g@1:1 is busy"},
		"driver with the CVE":     {func(b *bench) { b.state.Driver = "570.86.10"; b.set(b.state) }, "1g.10gb@0", "CVE-2026-24197"},
		"off by configuration":    {func(b *bench) { b.config.Freeze = true }, "1g.10gb@0", "freeze: true"},
		"off by annotation":       {func(b *bench) { b.api.set(OffAnnotation, "please") }, "1g.10gb@0", OffAnnotation},
		"no device plugin":        {func(b *bench) { b.api.plugins = nil }, "1g.10gb@0", "is devicePlugin right?"},
		"the exporter holds on":   {func(b *bench) { b.exporter.refuse = "stuck" }, "1g.10gb@0", "stuck"},
		"no exporter":             {func(b *bench) { b.config.Exporter.Socket += "x" }, "1g.10gb@0", "exporter.by: none"},
		"no kubelet":              {func(b *bench) { b.config.KubeletSocket += "x" }, "1g.10gb@0", "asking the kubelet"},
		"an illegal target":       {nil, "1g.10gb@0 3g.40gb@2", "may start at"},
		"a profile nobody has":    {nil, "5g.50gb@0", "5g"},
		"the deadline has passed": {func(b *bench) { b.now = b.now.Add(time.Hour) }, "1g.10gb@0", "deadline"},
		"the card fell off":       {func(b *bench) { b.state.Cards[0].Lost = true; b.set(b.state) }, "1g.10gb@0", "fallen off"},
		"another card":            {func(b *bench) { b.state.Cards[0].UUID = "GPU-7"; b.set(b.state) }, "1g.10gb@0", "is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			c := h100(t, 0, "!1g.10gb@0 1g.10gb@1")
			b := newBench(t, c)
			if test.target == "3g.40gb@4" {
				t.Log("the busy one would have to go")
			}
			b.order(before, test.target)
			if test.change != nil {
				test.change(b)
			}
			b.tick()
			if a := b.answer(); a.State != partition.AgentRestored || a.Touched || !strings.Contains(a.Message, test.why) {
				t.Errorf("answer %+v, want restored because of %q", a, test.why)
			}
			if got := b.layout(); got != before {
				t.Errorf("the card is now %s", got)
			}
			if n := b.machine().Changes; n != 0 {
				t.Errorf("%d changes of the hardware", n)
			}
		})
	}
}

// TestToldOtherwise: the same driver is used where the owner says so.
func TestToldOtherwise(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"allowed": func(c *Config) { c.AllowUnfixedDriver = true },
		"named":   func(c *Config) { c.FixedDrivers = []string{"570.86.01"} },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, "1g.10gb@0"))
			b.state.Driver = "570.86.10"
			b.set(b.state)
			change(&b.config)
			b.order("1g.10gb@0", "2g.20gb@0")
			b.tick()
			if got := b.layout(); got != "2g.20gb@0" {
				t.Errorf("layout %s, %+v", got, b.answer())
			}
		})
	}
}

// TestGoesBack: a step that fails is taken back, with what was done before it.
func TestGoesBack(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	for name, fail := range map[string]fakenvml.Fail{
		"no room":          {Op: "create", Code: 23, Times: 1},
		"half an instance": {Op: "create-compute", Code: 999, Times: 1},
		"came in use":      {Op: "destroy", Code: 19, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, before))
			b.state.Fails = []fakenvml.Fail{fail}
			b.set(b.state)
			b.order(before, "2g.20gb@4")
			b.tick()
			if a := b.answer(); a.State != partition.AgentRestored || !a.Touched || a.Message == "" {
				t.Errorf("answer %+v", a)
			}
			if got := b.layout(); got != before {
				t.Errorf("layout %s, want %s", got, before)
			}
			if b.api.plugins[0] == "plugin-0" {
				t.Error("the device plugin offers instances that were made anew")
			}
		})
	}
}

// TestCannotGoBack: a card that falls off on the way is reported, once for each
// time it is asked, and the other card is still looked after.
func TestCannotGoBack(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"), h100(t, 1, "1g.10gb@0"))
	b.state.Fails = []fakenvml.Fail{{Op: "create", Code: 15, Times: 99}}
	b.set(b.state)
	r := b.order("1g.10gb@4", "2g.20gb@4")
	b.tick()
	if a := b.answer(); a.State != partition.AgentFailed || !strings.Contains(a.Message, "fallen off") {
		t.Errorf("answer %+v", a)
	}
	lost := b.machine()
	lost.Cards[0].Lost, lost.Fails = true, nil
	b.set(lost)
	r.Undo = &partition.Undo{Since: b.now, Attempts: 1}
	b.api.set(partition.RecordAnnotation, r.String())
	b.tick()
	if a := b.answer(); a.State != partition.AgentFailed || a.Undo != 1 || !a.Touched {
		t.Errorf("answer to the first attempt %+v", a)
	}
	if rep := b.report(); rep.Cards[0].Problem == "" || rep.Cards[1].Problem != "" || rep.Cards[1].Instances[0].Place != "1g@0:1" {
		t.Errorf("report %+v", rep)
	}
	back := b.machine()
	back.Cards[0].Lost = false
	b.set(back)
	r.Undo.Attempts = 2
	b.api.set(partition.RecordAnnotation, r.String())
	b.tick()
	if a := b.answer(); a.State != partition.AgentRestored || b.layout() != "1g.10gb@4" {
		t.Errorf("after it came back: %+v, %s", a, b.layout())
	}
}

// TestUndo: the autoscaler changes its mind after all was done.
func TestUndo(t *testing.T) {
	b := newBench(t, h100(t, 0, "!3g.40gb@0 1g.10gb@4"))
	r := b.order("3g.40gb@0 1g.10gb@4", "3g.40gb@0 3g.40gb@4")
	b.tick()
	r.Undo = &partition.Undo{Since: b.now, Attempts: 1}
	b.api.set(partition.RecordAnnotation, r.String())
	b.tick()
	if a := b.answer(); a.State != partition.AgentRestored || a.Undo != 1 || b.layout() != "3g.40gb@0 1g.10gb@4" {
		t.Errorf("%+v, %s", a, b.layout())
	}
	if b.machine().Cards[0].Instances[0].UUID != "MIG-0-was-0" {
		t.Error("the busy instance is another one")
	}
}

// TestUndoOfNothing: an operation that the agent never saw is over at once.
func TestUndoOfNothing(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.order("1g.10gb@4", "2g.20gb@4", func(r *partition.Record) { r.Undo = &partition.Undo{Since: b.now, Attempts: 1} })
	b.tick()
	if a := b.answer(); a.State != partition.AgentRestored || a.Undo != 1 || b.machine().Changes != 0 {
		t.Errorf("%+v, %d changes", a, b.machine().Changes)
	}
}

// TestPluginStaysAway: a layout that nobody offers is taken back.
func TestPluginStaysAway(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.config.PluginTimeout = seconds(1)
	b.api.broken = true
	b.order("1g.10gb@4", "2g.20gb@4")
	b.tick()
	if a := b.answer(); a.State != partition.AgentFailed || b.layout() != "1g.10gb@4" || !strings.Contains(a.Message, "device plugin") {
		t.Errorf("%+v, %s", a, b.layout())
	}
}

// TestMode: MIG is switched on where that is allowed and harms nobody, and off
// again on the way back.
func TestMode(t *testing.T) {
	for name, test := range map[string]struct {
		product string
		change  fakenvml.ModeChange
		allow   bool
		busy    bool // the other card is used
		want    string
		why     string
	}{
		"Hopper":               {"H100-80GB", fakenvml.AtOnce, true, true, "3g.40gb@0", ""},
		"not allowed":          {"H100-80GB", fakenvml.AtOnce, false, false, "whole", "allowModeChange"},
		"Ampere, all idle":     {"A100-80GB", fakenvml.WithReset, true, false, "3g.40gb@0", ""},
		"Ampere, another busy": {"A100-80GB", fakenvml.WithReset, true, true, "whole", "card 1"},
		"Ampere, reboot":       {"A100-80GB", fakenvml.WithReboot, true, false, "whole", "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			c, other := cardOf(t, 0, test.product, "-"), cardOf(t, 1, test.product, "-")
			c.Change, other.Change = test.change, test.change
			if test.busy {
				other.PID = 9
			}
			b := newBench(t, c, other)
			b.config.AllowModeChange = test.allow
			r := b.order("empty", "3g.40gb@0", func(r *partition.Record) { r.Whole, r.Model = true, test.product })
			b.tick()
			if got := b.layout(); got != test.want || !strings.Contains(b.answer().Message, test.why) {
				t.Fatalf("card %s, want %s: %+v", got, test.want, b.answer())
			}
			r.Undo = &partition.Undo{Since: b.now, Attempts: 1}
			b.api.set(partition.RecordAnnotation, r.String())
			b.tick()
			if got := b.layout(); got != "whole" || b.answer().State != partition.AgentRestored {
				t.Errorf("back: %s, %+v", got, b.answer())
			}
		})
	}
}

// TestHangs: a driver that does not answer ends the operation, and the report
// says so.
func TestHangs(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.config.CallTimeout = seconds(1)
	b.state.Hang = true
	b.set(b.state)
	b.order("1g.10gb@4", "2g.20gb@4")
	b.tick()
	if a := b.answer(); a.State != partition.AgentRestored || a.Touched || !strings.Contains(a.Message, "does not answer") {
		t.Errorf("answer %+v", a)
	}
	if r := b.report(); !strings.Contains(r.Problem, "does not answer") {
		t.Errorf("report %+v", r)
	}
	b.state.Hang = false
	b.set(b.state)
	for range 60 { // of a second each
		if _, err := b.driver.Read(t.Context()); err == nil {
			return
		}
	}
	t.Error("the driver answers again and is not asked")
}

// TestAnnotationProtocol: an exporter without a socket is asked on the node.
func TestAnnotationProtocol(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.config.Exporter.By = byAnnotation
	// The answer to an earlier request of the same operation stands there still: the
	// exporter has come back since.
	b.api.set(quiescedAnnotation, `{"id":"op-1","state":"released"}`)
	answered := 0
	b.api.around(nil, func(int) {
		var request struct {
			ID    string
			Cards []string
		}
		if json.Unmarshal([]byte(b.api.get(quiesceAnnotation)), &request) == nil && len(request.Cards) == 1 && request.Cards[0] == "GPU-0" && strings.HasPrefix(request.ID, "op-1.") {
			answered++
			b.api.set(quiescedAnnotation, fmt.Sprintf(`{"id":%q,"state":"released"}`, request.ID))
		}
	})
	b.order("1g.10gb@4", "2g.20gb@4")
	b.tick()
	if b.layout() != "2g.20gb@4" || b.api.get(quiesceAnnotation) != "" || answered == 0 {
		t.Errorf("%s, %+v, request %q", b.layout(), b.answer(), b.api.get(quiesceAnnotation))
	}
}

// TestLeavesOthersAlone: mig-manager's operations, what cannot be read, and what
// it has not been told to begin.
func TestLeavesOthersAlone(t *testing.T) {
	for _, text := range []string{
		`{"id":"a","config":"c","previous":"p","target":"2g.20gb@4","before":"1g.10gb@4","deadline":"2027-01-01T00:00:00Z"}`, `{"id":`,
		// Not let begin: a pod may have come to the node meanwhile.
		`{"id":"a","actuator":"agent","target":"2g.20gb@4","before":"1g.10gb@4","deadline":"2027-01-01T00:00:00Z"}`,
	} {
		b := newBench(t, h100(t, 0, "1g.10gb@4"))
		b.api.set(partition.RecordAnnotation, text)
		b.tick()
		if n := b.machine().Changes; n != 0 || b.api.get(partition.AgentAnnotation) != "" {
			t.Errorf("%s: %d changes", text, n)
		}
	}
}

// TestChangedMind: an operation that is undone while the agent is at it goes no
// step further, and one whose record is taken away neither.
func TestChangedMind(t *testing.T) {
	const before = "1g.10gb@4 1g.10gb@5"
	for name, undone := range map[string]bool{"undone": true, "taken away": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, h100(t, 0, before))
			r := b.order(before, "2g.20gb@4")
			b.api.around(nil, func(n int) {
				switch {
				case n != 1:
				case undone:
					r.Undo = &partition.Undo{Since: b.now, Attempts: 1}
					b.api.set(partition.RecordAnnotation, r.String())
				default:
					b.api.set(partition.RecordAnnotation, "")
				}
			})
			b.tick()
			if n := b.machine().Changes; n != 2 {
				t.Errorf("%d changes of the hardware, want those of the one step that was noted", n)
			}
			if !undone {
				return
			}
			b.tick()
			if a := b.answer(); a.State != partition.AgentRestored || a.Undo != 1 || b.layout() != before {
				t.Errorf("%+v, %s", a, b.layout())
			}
		})
	}
}

// TestDeadlineOnTheWay: an operation that has run out of time goes back.
func TestDeadlineOnTheWay(t *testing.T) {
	b := newBench(t, h100(t, 0, "1g.10gb@4"))
	b.order("1g.10gb@4", "2g.20gb@4")
	b.api.around(nil, func(n int) {
		if n == 1 {
			b.api.mu.Lock()
			b.now = b.now.Add(time.Hour)
			b.api.mu.Unlock()
		}
	})
	b.tick()
	if a := b.answer(); a.State != partition.AgentRestored || b.layout() != "1g.10gb@4" || !strings.Contains(a.Message, "deadline") {
		t.Errorf("%+v, %s", a, b.layout())
	}
}
