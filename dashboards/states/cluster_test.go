package states

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// begin is the time of the first scrape.
var begin = scenario.Epoch

// cluster is a simulated cluster with the real loop and planner over it. It fakes the
// API server, Prometheus as the loop reads it, and the actuators: plan/sim executes
// decisions, with delays.
type cluster struct {
	world    *scenario.World
	registry *prometheus.Registry
	loop     *loop.Loop

	xids       map[string][]int // by GPU, not yet reported
	hot        map[string]bool  // by GPU
	ecc        map[string]ecc   // by GPU
	down       bool             // no exporter answers
	lastAnswer time.Time        // when they last did
	hpas       map[string]*autoscalingv2.HorizontalPodAutoscaler
	err        error // of the simulated world, or a warning of the loop
}

// ecc counts a GPU's errors in its memory. A row is replaced for each uncorrected error, and for some of the corrected
// ones.
type ecc struct{ corrected, uncorrected int }

func newCluster() *cluster {
	return &cluster{world: scenario.NewWorld(), registry: prometheus.NewRegistry(),
		xids: map[string][]int{}, hot: map[string]bool{}, ecc: map[string]ecc{}, hpas: map[string]*autoscalingv2.HorizontalPodAutoscaler{}}
}

// start makes the loop, with the policy of the story's first chapter, and reconciles.
func (c *cluster) start() error {
	c.loop = loop.New(loop.Options{
		Observer: c, Actor: c, Store: c, Policy: c.world.Policy, Registry: c.registry, Now: func() time.Time { return c.world.Sim.State.Now },
		Log: slog.New(slog.NewTextHandler(&failures{c}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	c.loop.Lead(true)
	return c.reconcile()
}

func (c *cluster) reconcile() error {
	return errors.Join(c.loop.Once(context.Background()), c.err)
}

// failures ends a recording in which the loop logged a warning.
type failures struct{ c *cluster }

func (f *failures) Write(line []byte) (int, error) {
	if f.c.err == nil {
		f.c.err = fmt.Errorf("the loop logged: %s", line)
	}
	return len(line), nil
}

// Observe implements loop.Observer.
func (c *cluster) Observe(_ context.Context, now time.Time) (observe.Observation, error) {
	s := c.world.Sim.Snapshot()
	s.State = plan.State{}
	if !c.down {
		c.lastAnswer = now
	}
	age := now.Sub(c.lastAnswer)
	for i := range s.Nodes {
		for k := range s.Nodes[i].GPUs {
			c.measure(&s.Nodes[i].GPUs[k], now, age)
		}
	}
	seen := observe.Observation{Snapshot: s, ReadingsAge: age}
	for _, name := range slices.Sorted(maps.Keys(c.hpas)) {
		seen.HPAs = append(seen.HPAs, c.hpas[name])
	}
	return seen, nil
}

// maxAge is the Observer's default: older values are unknown.
const maxAge = 30 * time.Second

// measure sets a GPU's use as Prometheus would return it.
func (c *cluster) measure(dev *plan.GPU, now time.Time, age time.Duration) {
	if age > maxAge {
		dev.AllocationKnown, dev.Busy = false, sample.Unknown()
		for i := range dev.Instances {
			dev.Instances[i].Busy = sample.Unknown()
		}
		return
	}
	dev.Busy = sample.Known(busiest(dev.AllocatedTo, now), age)
	for i := range dev.Instances {
		dev.Instances[i].Busy = sample.Known(busyOf(dev.Instances[i].AllocatedTo, now), age)
	}
}

// busyOf is the share of time that a pod computes: each has its own level, which varies
// a little. Pods named idle do not compute; without a pod it is 0.
func busyOf(holder string, now time.Time) float64 {
	if holder == "" || strings.Contains(holder, "idle") {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(holder))
	level := 0.25 + 0.6*float64(h.Sum32()%1000)/1000
	phase := float64(h.Sum32() % 7)
	return math.Round(1000*(level+0.1*math.Sin(phase+now.Sub(begin).Seconds()/240))) / 1000
}

func busiest(allocatedTo []string, now time.Time) float64 {
	most := 0.0
	for _, h := range allocatedTo {
		most = max(most, busyOf(h, now))
	}
	return most
}

// Apply implements loop.Actor.
func (c *cluster) Apply(_ context.Context, s plan.Snapshot, p plan.Plan) []act.Result {
	if err := c.world.Sim.Apply(p); err != nil && c.err == nil {
		c.err = fmt.Errorf("carrying out the plan of %s: %w", s.Now.Format(time.TimeOnly), err)
	}
	results := make([]act.Result, len(p.Actions))
	for i, a := range p.Actions {
		results[i] = act.Result{Action: a, Outcome: act.Done}
	}
	return results
}

// Load implements loop.Store.
func (c *cluster) Load(context.Context) (plan.State, error) { return plan.State{}, nil }

// Save implements loop.Store.
func (c *cluster) Save(context.Context, plan.Snapshot, plan.State) (map[string]error, error) {
	return nil, nil
}
