package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/gpuscale/gpuscale/autoscaler/loop"
	"github.com/gpuscale/gpuscale/internal/serve"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

func newServer(address string, l *loop.Loop, c Config, registry prometheus.Gatherer, caches cache.Cache, log *slog.Logger) (*serve.Server, error) {
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
		Routes: func(mux *http.ServeMux) { routes(mux, l.State, c.Policy, guard{c.Debug, log}) },
		Log:    log,
	})
}

// routes serve the last reconcile: the plan as text, and the snapshot, also one on which the planner panicked, as a
// scenario for "plan -f". The scenario includes the policy, so that it gives the same plan. Go's profiles are served
// too: performance problems often need the cluster they occur in.
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
	const early = "no reconcile has ended on this replica: it does not lead, or has only just begun to lead"
	show("/debug/plan", early, func() (string, bool) {
		last, ok := state.Last()
		return text.Lines(planText(last)), ok
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

// tokenHeader has the token of /debug, as an alternative to Authorization, which the API
// server's proxy does not forward.
const tokenHeader = "X-Gpuscale-Token"

// DebugConfig protects /debug, which shows all pods, nodes and quotas.
type DebugConfig struct {
	// TokenFile has the token for requests from outside the pod; requests through
	// "kubectl port-forward" and "kubectl exec" need none. Without a file, requests from
	// outside are refused. It is read at each request, so that it can be rotated.
	TokenFile string `json:"tokenFile"`
}

// guard refuses requests to /debug that lack the token.
type guard struct {
	DebugConfig
	log *slog.Logger
}

func (g guard) protect(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if status, why := g.refuses(r); status != 0 {
			http.Error(w, why, status)
			return
		}
		next(w, r)
	}
}

// refuses returns the status and the reason of a refusal, status 0 for none.
func (g guard) refuses(r *http.Request) (int, string) {
	if local(r) {
		return 0, ""
	}
	if g.TokenFile == "" {
		return http.StatusForbidden, "/debug is served to callers on this pod only: use kubectl port-forward, or set debug.tokenFile in the autoscaler's configuration"
	}
	want, err := token(g.TokenFile)
	if err != nil {
		g.log.Error("reading debug.tokenFile failed", "err", err)
		return http.StatusForbidden, "the autoscaler cannot read its debug.tokenFile; see its log"
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	for _, shown := range []string{r.Header.Get(tokenHeader), bearer} {
		if shown != "" && same(shown, want) {
			return 0, ""
		}
	}
	return http.StatusUnauthorized, "/debug requires the token of debug.tokenFile, as a bearer token or in the header " + tokenHeader
}

// forwarded are headers of proxies: a proxy on this pod is local, but its clients may not be.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

func local(r *http.Request) bool {
	for _, h := range forwarded {
		if r.Header.Get(h) != "" {
			return false
		}
	}
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && a.Network() == "unix" {
		return true
	}
	// A Host other than this machine may be a web page whose name resolves to this address (DNS rebinding), in a
	// browser beside kubectl port-forward.
	called := (&url.URL{Host: r.Host}).Hostname()
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback() && (strings.EqualFold(called, "localhost") || net.ParseIP(called).IsLoopback())
}

// same compares in constant time.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// minToken rejects an empty or truncated file.
const minToken = 16

func token(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	t := strings.TrimSpace(string(text))
	if len(t) < minToken {
		return "", fmt.Errorf("%s: %d characters: want at least %d", file, len(t), minToken)
	}
	return t, nil
}
