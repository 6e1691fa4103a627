package states

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/gpu/sample"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// begin is the time of the first scrape.
var begin = scenario.Epoch

// cluster is a simulated world with the real loop and planner over it. It is the
// double of the API server, of Prometheus as the loop reads it, and of the
// actuators: plan/sim carries out what is decided, with delays.
type cluster struct {
	world    *scenario.World
	registry *prometheus.Registry

	xids   map[string][]int // by card, not yet reported
	hot    map[string]bool  // by card
	ecc    map[string]ecc   // by card
	silent bool             // no exporter answers
	heard  time.Time        // when they last did
	hpas   map[string]observe.HPA
	err    error // of a round or the simulated world

	wake, ended, idle chan struct{} // unbuffered: who sends knows that it was heard
	stop              func()
}

// ecc is what a card counts of errors in its memory. A row is replaced for each
// double one, and for some of the single ones.
type ecc struct{ single, double int }

func newCluster() *cluster {
	c := &cluster{world: scenario.NewWorld(), registry: prometheus.NewRegistry(),
		xids: map[string][]int{}, hot: map[string]bool{}, ecc: map[string]ecc{}, hpas: map[string]observe.HPA{}, wake: make(chan struct{}), ended: make(chan struct{}), idle: make(chan struct{})}
	return c
}

// start runs the loop, which leads and turns when it is woken; the policy is the
// story's first chapter's. The first round is over when it returns.
func (c *cluster) start() error {
	l := loop.New(loop.Options{
		Observer: c, Actor: c, Store: c, Publisher: c, Policy: c.world.Policy, Metrics: loop.NewMetrics(c.registry),
		Now: func() time.Time { return c.world.Sim.State.Now }, Interval: 24 * time.Hour, Wake: c.wake, Changed: c.idle,
		Log: slog.New(slog.NewTextHandler(&failures{c}, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx) // it returns nil
	}()
	c.stop = func() { cancel(); <-done }
	return c.await()
}

// failures ends a recording in which the loop had anything to warn of.
type failures struct{ c *cluster }

func (f *failures) Write(line []byte) (int, error) {
	if f.c.err == nil {
		f.c.err = fmt.Errorf("the loop says: %s", line)
	}
	return len(line), nil
}

// await waits for a round to end, what it counts after publishing included: the loop
// then listens again. One takes milliseconds; a minute is a bug.
func (c *cluster) await() error {
	late := time.After(time.Minute)
	select {
	case <-c.ended:
	case <-late:
		return fmt.Errorf("a round has not ended after a minute")
	}
	select {
	case c.idle <- struct{}{}:
		return c.err
	case <-late:
		return fmt.Errorf("a round was published and has not ended after a minute")
	}
}

// Publish implements loop.Publisher: it tells that a round is almost over.
func (c *cluster) Publish(context.Context, loop.Round) { c.ended <- struct{}{} }

// Observe implements loop.Observer.
func (c *cluster) Observe(_ context.Context, now time.Time) (observe.Observation, error) {
	s := c.world.Sim.Snapshot()
	s.Memory = plan.Memory{}
	if !c.silent {
		c.heard = now
	}
	age := now.Sub(c.heard)
	for i := range s.Nodes {
		for k := range s.Nodes[i].Cards {
			c.measure(&s.Nodes[i].Cards[k], now, age)
		}
	}
	seen := observe.Observation{Snapshot: s, ReadingsAge: age}
	for _, name := range slices.Sorted(maps.Keys(c.hpas)) {
		seen.HPAs = append(seen.HPAs, c.hpas[name])
	}
	return seen, nil
}

// maxAge is the Observer's default: what is older is unknown.
const maxAge = 30 * time.Second

// measure puts into a card what Prometheus would say of it.
func (c *cluster) measure(card *plan.Card, now time.Time, age time.Duration) {
	if age > maxAge {
		card.HoldersKnown, card.Busy = false, sample.Unknown()
		for i := range card.Instances {
			card.Instances[i].Busy = sample.Unknown()
		}
		return
	}
	card.Busy = sample.Known(busiest(card.Holders, now), age)
	for i := range card.Instances {
		card.Instances[i].Busy = sample.Known(busyOf(card.Instances[i].Holder, now), age)
	}
}

// busyOf is the share of time that a pod computes: each has its own level, which
// swings a little. Pods called idle do not compute, and nobody computes nothing.
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

func busiest(holders []string, now time.Time) float64 {
	most := 0.0
	for _, h := range holders {
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

// Resume implements loop.Actor: the simulated world finishes by itself.
func (c *cluster) Resume(context.Context, time.Time) error { return nil }

// Load implements loop.Store.
func (c *cluster) Load(context.Context) (plan.Memory, error) { return plan.Memory{}, nil }

// Save implements loop.Store.
func (c *cluster) Save(context.Context, plan.Snapshot, plan.Memory) error { return nil }

// turn lets time pass and the loop turn once.
func (c *cluster) turn(d time.Duration) error {
	c.world.Sim.Advance(d)
	c.wake <- struct{}{}
	return c.await()
}
