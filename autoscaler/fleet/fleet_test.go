package fleet_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/fleet"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/pools"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestSeries runs testdata/series. A file is one autoscaler over one simulated
// cluster.
//
//	reconcile [after=10s] [idle] [fail=POOL] [failures=POOL:N] [interrupted=NODE] [acted=200ms]
//	                 changes the cluster by the lines below, advances the time, binds
//	                 the pods that fit and reconciles. Actions on the pool of fail fail,
//	                 others succeed; failures is the pool's number of successive
//	                 failures; acted is the duration of the reconcile
//	hpa NS/NAME min=1 max=4 [current=2 desired=3] [limits=A,B]
//	show NAME …      the series of these names, without gpuscale_autoscaler_
//	lead no|yes      whether the replica leads
func TestSeries(t *testing.T) {
	datadriven.Walk(t, "testdata/series", func(t *testing.T, path string) {
		c := newCase()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := c.do(d)
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			c.lint(t)
			return out
		})
	})
}

type testCase struct {
	world    *scenario.World
	fleet    *fleet.Fleet
	registry *prometheus.Registry
	hpas     []observe.HPA
	memory   plan.State
}

func newCase() *testCase {
	c := &testCase{world: scenario.NewWorld(), fleet: fleet.New(), registry: prometheus.NewPedanticRegistry()}
	c.registry.MustRegister(c.fleet)
	c.fleet.Lead(true)
	return c
}

func (c *testCase) do(d *datadriven.TestData) (string, error) {
	words := map[string]string{}
	for _, a := range d.CmdArgs {
		words[a.Key] = strings.Join(a.Vals, ",")
	}
	switch d.Cmd {
	case "reconcile":
		return "ok\n", c.reconcile(words, d.Input)
	case "hpa":
		return "ok\n", c.hpa(d.CmdArgs[0].Key, words)
	case "lead":
		c.fleet.Lead(d.CmdArgs[0].Key == "yes")
		return "ok\n", nil
	case "show":
		return c.show(d.CmdArgs)
	}
	return "", fmt.Errorf("there is no %s", d.Cmd)
}

func (c *testCase) hpa(key string, words map[string]string) error {
	namespace, name, _ := strings.Cut(key, "/")
	h := observe.HPA{Namespace: namespace, Name: name}
	for key, at := range map[string]*int{"min": &h.Min, "max": &h.Max, "current": &h.Current, "desired": &h.Desired} {
		if text, ok := words[key]; ok {
			n, err := strconv.Atoi(text)
			if err != nil {
				return err
			}
			*at = n
		}
	}
	_, h.Seen = words["current"]
	if words["limits"] != "" {
		h.Limits = strings.Split(words["limits"], ",")
	}
	c.hpas = append(c.hpas, h)
	return nil
}

// reconcile reconciles, by default a millisecond after the last time.
func (c *testCase) reconcile(words map[string]string, text string) error {
	if _, err := c.world.Exec(text); err != nil {
		return err
	}
	after := time.Millisecond
	if words["after"] != "" {
		var err error
		if after, err = time.ParseDuration(words["after"]); err != nil {
			return err
		}
	}
	c.world.Sim.Advance(after)
	s := c.world.Sim.Snapshot()
	for i := range s.Nodes {
		if s.Nodes[i].Name == words["interrupted"] {
			s.Nodes[i].LeavesAt, s.Nodes[i].Cordoned = s.Now.Add(2*time.Minute), true
		}
	}
	s.State = c.memory
	p := plan.Make(s, c.world.Policy)
	c.memory = p.State
	r := fleet.Reconcile{Observation: &observe.Observation{Snapshot: s, HPAs: c.hpas, Learned: learned(words["failures"])}, Plan: &p, Acted: s.Now}
	_, r.Idle = words["idle"]
	if words["acted"] != "" {
		took, err := time.ParseDuration(words["acted"])
		if err != nil {
			return err
		}
		r.Acted = s.Now.Add(took)
	}
	var done plan.Plan
	done.State = p.State
	for _, a := range p.Actions {
		outcome := act.Done
		if a.Pool == words["fail"] {
			outcome = act.Failed
		} else {
			done.Actions = append(done.Actions, a)
		}
		r.Results = append(r.Results, act.Result{Action: a, Outcome: outcome})
	}
	if err := c.world.Sim.Apply(done); err != nil {
		return err
	}
	return c.fleet.Observe(r)
}

// learned reads "POOL:N".
func learned(text string) map[string]pools.Learned {
	pool, n, _ := strings.Cut(text, ":")
	failures, _ := strconv.Atoi(n)
	return map[string]pools.Learned{pool: {Failures: failures}}
}

// show prints series without help, type, the common prefix and zeros.
func (c *testCase) show(names []datadriven.CmdArg) (string, error) {
	families, err := c.registry.Gather()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, f := range families {
		short := strings.TrimPrefix(f.GetName(), "gpuscale_autoscaler_")
		for _, name := range names {
			if name.Key != short {
				continue
			}
			var text bytes.Buffer
			if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
				return "", err
			}
			for line := range strings.Lines(text.String()) {
				if !strings.HasPrefix(line, "#") && !strings.HasSuffix(line, "} 0\n") {
					out.WriteString(strings.TrimPrefix(line, "gpuscale_autoscaler_"))
				}
			}
		}
	}
	if out.Len() == 0 {
		return "nothing\n", nil
	}
	return out.String(), nil
}

// lint checks the exposition: Prometheus' naming rules, no empty label.
func (c *testCase) lint(t *testing.T) {
	t.Helper()
	families, err := c.registry.Gather()
	if err != nil {
		t.Error(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Error(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == "" {
					t.Errorf("%s: an empty %s", f.GetName(), l.GetName())
				}
			}
		}
	}
}
