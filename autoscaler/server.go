package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/internal/serve"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// syncer is a cache.
type syncer interface {
	WaitForCacheSync(ctx context.Context) bool
}

func newServer(address string, l *loop.Loop, c Config, registry prometheus.Gatherer, caches syncer, log *slog.Logger) (*serve.Server, error) {
	return serve.New(serve.Options{
		Address: address,
		Metrics: serve.Metrics(registry, log),
		Ready: func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			if !caches.WaitForCacheSync(ctx) {
				return errors.New("the caches are not in sync")
			}
			return l.State.Ready()
		},
		Live:   l.State.Live,
		Routes: func(mux *http.ServeMux) { routes(mux, l.State, c.Policy.Plan(), guard{c.Debug, log}) },
		Log:    log,
	})
}

// routes serve the last reconcile: the plan as text, and the snapshot, also that of a
// panic of the planner, as a scenario for "plan -f". The scenario includes the policy, so
// that it gives the same plan. Go's profiles are served too: performance problems often
// need the cluster they occur in.
func routes(mux *http.ServeMux, state *loop.State, policy plan.Policy, g guard) {
	show := func(path, otherwise string, text func() (string, bool)) {
		mux.HandleFunc("GET "+path, g.protect(func(w http.ResponseWriter, _ *http.Request) {
			shown, ok := text()
			if !ok {
				http.Error(w, otherwise, http.StatusServiceUnavailable)
				return
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = fmt.Fprint(w, shown)
		}))
	}
	const early = "no reconcile has ended on this replica: it does not lead, or leads since a moment ago"
	show("/debug/plan", early, func() (string, bool) {
		last, ok := state.Last()
		return planText(last), ok
	})
	show("/debug/snapshot", early, func() (string, bool) {
		snapshot, ok := state.Snapshot()
		return scenarioText(snapshot, policy), ok
	})
	for path, handle := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, "/debug/pprof/trace": pprof.Trace,
		"/debug/pprof/cmdline": pprof.Cmdline, "/debug/pprof/symbol": pprof.Symbol,
	} {
		mux.HandleFunc("GET "+path, g.protect(handle))
	}
	show("/debug/panic", "the planner has not panicked on this replica", func() (string, bool) {
		caught := state.Panic()
		if caught == nil {
			return "", false
		}
		return panicText(caught, policy), true
	})
}

func scenarioText(s plan.Snapshot, policy plan.Policy) string {
	return scenario.PrintPolicy(policy) + scenario.Print(s)
}

// panicText is a panic of the planner as a scenario that reproduces it.
func panicText(p *loop.PlannerPanic, policy plan.Policy) string {
	stack := strings.ReplaceAll(strings.TrimSpace(string(p.Stack)), "\n", "\n# ")
	value := strings.ReplaceAll(fmt.Sprint(p.Value), "\n", "\n# ")
	return fmt.Sprintf("# %s: %s\n# %s\n%s", p.At.UTC().Format(time.RFC3339Nano), value, stack, scenarioText(p.Snapshot, policy))
}

// planText is the plan, with the results of its actions.
func planText(r loop.Reconcile) string {
	text := fmt.Sprintf("# %s\n%s", r.Plan.At.UTC().Format(time.RFC3339Nano), r.Plan)
	for _, result := range r.Results {
		text += fmt.Sprintf("# %s %s: %s", result.Action.Verb, subject(result.Action), result.Outcome)
		if result.Err != nil {
			text += fmt.Sprintf(": %v", result.Err)
		}
		text += "\n"
	}
	return text
}

// subject is the object of an action.
func subject(a plan.Action) string { return cmp.Or(a.Pod, a.Node, a.Pool) }
