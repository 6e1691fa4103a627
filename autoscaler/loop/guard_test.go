package loop

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/plan"
)

// TestPlannerPanicFailsOneReconcile: a panic of the planner is an error of its reconcile,
// which writes and does nothing; the next one plans again.
func TestPlannerPanicFailsOneReconcile(t *testing.T) {
	var log bytes.Buffer
	panics := true
	r := newRig(t, onePending, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		o.Plan = func(s plan.Snapshot, p plan.Policy) plan.Plan {
			if panics {
				var none []int
				_ = none[len(s.Pods)]
			}
			return plan.Make(s, p)
		}
	})
	r.loop.State.lead(true)
	r.log = nil
	err := r.loop.Once(t.Context())
	var caught *PlannerPanic
	if !errors.As(err, &caught) || !strings.Contains(err.Error(), "index out of range") {
		t.Fatalf("err = %v", err)
	}
	if !slices.Equal(r.log, []string{"load", "observe"}) {
		t.Errorf("did %q", r.log)
	}
	if r.loop.State.Live() != nil || r.loop.State.Ready() == nil {
		t.Error("want live, so that kubelet does not restart the pod, and not ready")
	}
	if s, ok := r.loop.State.Snapshot(); !ok || len(s.Pods) != 1 {
		t.Error("the snapshot of the panic is not available")
	}
	if !strings.Contains(log.String(), "guard_test.go") {
		t.Errorf("the log has no stack:\n%s", log.String())
	}
	panics = false
	r.world.Advance(time.Second)
	r.want(nil, "observe", "save scale-up", "resume", "act scale-up")
	if err := r.loop.State.Ready(); err != nil {
		t.Error(err)
	}
	if s, _ := r.loop.State.Snapshot(); r.loop.State.Panic() == nil || !s.Now.After(caught.At) {
		t.Error("want the new snapshot, and the old panic")
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader(`
# HELP gpuscale_autoscaler_planner_panics_total Reconciles in which the planner panicked and nothing was done: a bug; report it with the output of /debug/panic.
# TYPE gpuscale_autoscaler_planner_panics_total counter
gpuscale_autoscaler_planner_panics_total 1
`), "gpuscale_autoscaler_planner_panics_total"); err != nil {
		t.Error(err)
	}
}

// TestReportsIgnored: the gauge has the last reconcile's counts, 0 included.
func TestReportsIgnored(t *testing.T) {
	r := newRig(t, onePending, nil)
	for _, r.ignored = range []observe.Ignored{{Nodes: 1, GPUs: 2, Disputed: 3}, {GPUs: 2}} {
		if err := r.loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const name = "gpuscale_autoscaler_reports_ignored"
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader("# HELP "+name+" "+metric.AutoscalerReportsIgnored.Help+"\n# TYPE "+name+" gauge\n"+
		name+"{reason=\"disputed\"} 0\n"+name+"{reason=\"unknown_gpu\"} 2\n"+name+"{reason=\"unknown_node\"} 0\n"), name); err != nil {
		t.Error(err)
	}
}

// TestLimitExceeded: a namespace has a series while it exceeds a limit.
func TestLimitExceeded(t *testing.T) {
	r := newRig(t, onePending, nil)
	name := metric.AutoscalerLimitExceeded.Name
	for _, r.exceeded = range [][]observe.Exceeded{{{Namespace: "a", Limit: observe.LimitRules, Pods: 2}}, {{Namespace: "b", Limit: observe.LimitPending, Pods: 3}}} {
		if err := r.loop.Once(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := testutil.GatherAndCompare(r.metrics, strings.NewReader("# HELP "+name+" "+metric.AutoscalerLimitExceeded.Help+"\n# TYPE "+name+" gauge\n"+
		name+"{namespace=\"b\",reason=\"pending_pods\"} 3\n"), name); err != nil {
		t.Error(err)
	}
}

func TestSnapshotAge(t *testing.T) {
	at := time.Unix(1000, 0)
	a := newAges()
	a.now = func() time.Time { return at.Add(3 * time.Second) }
	want := func(text string) {
		t.Helper()
		if err := testutil.CollectAndCompare(a, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	const head = `
# HELP gpuscale_autoscaler_snapshot_age_seconds Age of the data of the last plan, by kind: "cluster" since it was read, "prometheus" since it was queried. Absent where nothing was read.
# TYPE gpuscale_autoscaler_snapshot_age_seconds gauge
`
	want("")
	a.observed(at, -1)
	want(head + "gpuscale_autoscaler_snapshot_age_seconds{kind=\"cluster\"} 3\n")
	a.observed(at, 2*time.Second)
	want(head + "gpuscale_autoscaler_snapshot_age_seconds{kind=\"cluster\"} 3\ngpuscale_autoscaler_snapshot_age_seconds{kind=\"prometheus\"} 5\n")
}
