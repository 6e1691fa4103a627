package states

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/model"
	"github.com/gpuscale/gpuscale/report/query"
	"github.com/gpuscale/gpuscale/sandbox/hostile"
)

// server answers as *prom.Client does over a Prometheus: an answer with a warning is partial, and so an error. It
// records the queries.
type server struct {
	storage.Queryable
	now     time.Time
	queries []string
}

// Query implements observe.Querier and query.Prometheus.
func (s *server) Query(ctx context.Context, text string, at time.Time) (prom.Vector, error) {
	if at.IsZero() {
		at = s.now
	}
	s.queries = append(s.queries, text)
	return memstore.Server{Data: s, Engine: engine}.Query(ctx, text, at)
}

// Range implements query.Prometheus.
func (s *server) Range(ctx context.Context, text string, from, to time.Time, step time.Duration) ([]prom.Line, error) {
	s.queries = append(s.queries, text)
	return memstore.Server{Data: s, Engine: engine}.Range(ctx, text, from, to, step)
}

// resultOf is the result of a rule as text, without the series of the tenant itself. As in Prometheus a warning is no
// failure of a rule.
func resultOf(t *testing.T, src storage.Queryable, expr string, at time.Time) string {
	t.Helper()
	v, _, err := memstore.Instant(t.Context(), engine, src, expr, at)
	if err != nil {
		return err.Error()
	}
	v = slices.DeleteFunc(v, func(s promql.Sample) bool { return s.Metric.Get("namespace") == "tenant" })
	slices.SortFunc(v, func(a, b promql.Sample) int { return strings.Compare(a.Metric.String(), b.Metric.String()) })
	return fmt.Sprint(v)
}

// trusted is the namespace of our programs.
const trusted = sources.Namespaces

// views are what an operator or a program reads from a Prometheus, as text by name. For boards they are the panels that
// read only recording rules.
var views = map[string]func(t *testing.T, src storage.Queryable, s State) map[string]string{
	"boards": func(t *testing.T, src storage.Queryable, s State) map[string]string {
		out := map[string]string{}
		w := window(s)
		w.From = w.To.Add(-5 * time.Minute)
		for _, b := range boards.All() {
			for _, p := range panels(b) {
				if !slices.ContainsFunc(readsOf(t, b, p), func(name string) bool { return !isRecord(name) }) {
					a, err := eval.Ask(t.Context(), memstore.Over(src), b, p, w)
					out[b.UID+"/"+p.Title] = fmt.Sprint(a.Series, cells(a), err)
				}
			}
		}
		if len(out) < 4 {
			t.Errorf("only the panels %v read rules alone", out)
		}
		return out
	},
	"alerts": func(t *testing.T, src storage.Queryable, s State) map[string]string {
		out := map[string]string{}
		for _, a := range alerts.All() {
			out[a.Name] = resultOf(t, src, a.Query(), s.End())
		}
		return out
	},
	"rules": func(t *testing.T, src storage.Queryable, s State) map[string]string {
		out := map[string]string{}
		for _, r := range rules.All() {
			out[r.Record] = resultOf(t, src, r.Expr, s.End())
		}
		return out
	},
	"report": func(t *testing.T, src storage.Queryable, s State) map[string]string {
		w, err := query.NewWindow(s.End(), 25*time.Minute)
		require.NoError(t, err)
		a, err := query.Run(t.Context(), &server{Queryable: src, now: s.End()}, w, query.Options{Trusted: []string{trusted}, Concurrency: 1, Pause: time.Nanosecond})
		if err != nil {
			return map[string]string{"": err.Error()}
		}
		r := model.Make(model.Input{Answers: a, Generated: s.End(), Version: "x"})
		r.Use.Serving = slices.DeleteFunc(r.Use.Serving, func(s model.Serving) bool { return s.Namespace == "tenant" })
		var b bytes.Buffer
		if err := text.JSON(&b, r); err != nil {
			return map[string]string{"": err.Error()}
		}
		return map[string]string{"": b.String()}
	},
}

// readings are what the autoscaler reads from a Prometheus.
func readings(t *testing.T, src storage.Queryable, s State, from ...string) *observe.Readings {
	t.Helper()
	r, err := observe.Read(t.Context(), &server{Queryable: src, now: s.End()}, trust.From(from), s.End())
	require.NoError(t, err)
	return r
}

// TestNoPageChangesWhatOthersSee: whatever series a tenant's pages contain, alerts, recorded series, the report and the
// autoscaler's readings of GPUs are the same as without them.
func TestNoPageChangesWhatOthersSee(t *testing.T) {
	names, honors, many := []string{XID}, []bool{true}, 4
	if testall.Enabled() {
		names, honors, many = []string{XID, MIG, Healthy, Down}, []bool{true, false}, 40
	} else if testing.Short() {
		t.Skip("-short: recording a state takes seconds")
	}
	for _, name := range names {
		s := find(t, name)
		for _, honor := range honors {
			src := hostile.With(s.WithRules().Storage(honor), tokens(t, s)...)
			w, err := hostile.Look(src, s.Start(), s.End())
			require.NoError(t, err)
			want := map[string]map[string]string{}
			for v, see := range views {
				want[v] = see(t, src, s)
			}
			nodes := readings(t, src, s, trusted)
			for _, a := range attacks(many) {
				attacked := w.Attacked(a)
				for v, see := range views {
					for what, got := range see(t, attacked, s) {
						if got != want[v][what] {
							t.Errorf("%s, honor_labels %v, %s: %s %s: %s", name, honor, a.Name, v, what, difference(want[v][what], got))
						}
					}
				}
				if got := readings(t, attacked, s, trusted); !reflect.DeepEqual(got, nodes) {
					t.Errorf("%s, honor_labels %v, %s: the autoscaler reads other values", name, honor, a.Name)
				}
			}
		}
	}
}

// TestTrustIsWhatProtects: where every target is trusted, attacks change alerts.
func TestTrustIsWhatProtects(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: recording a state takes seconds")
	}
	s := find(t, XID)
	src := hostile.With(s.Storage(true), tokens(t, s)...)
	w, err := hostile.Look(src, s.Start(), s.End())
	require.NoError(t, err)
	everywhere := func(src storage.Queryable) string {
		out := ""
		for _, a := range alerts.All() {
			out += resultOf(t, src, strings.ReplaceAll(a.Query(), sources.Matcher, sources.Match([]string{"*"})), s.End())
		}
		return out
	}
	want := everywhere(src)
	for _, a := range attacks(4) {
		if strings.HasPrefix(a.Name, "native") || strings.HasSuffix(a.Name, "finite") {
			continue // such attacks only make evaluations fail
		}
		if everywhere(w.Attacked(a)) == want {
			t.Errorf("%s: no alert changes", a.Name)
		}
	}
}

// TestEverySeriesReadIsAttacked: the attacks forge each family that alerts, rules, the report, the
// autoscaler or a rule of the adapter reads.
func TestEverySeriesReadIsAttacked(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: recording a state takes seconds")
	}
	s := find(t, XID)
	src := hostile.With(s.Storage(true), tokens(t, s)...)
	asked := &server{Queryable: src, now: s.End()}
	w, err := query.NewWindow(s.End(), 25*time.Minute)
	require.NoError(t, err)
	_, err = query.Run(t.Context(), asked, w, query.Options{Trusted: []string{trusted}, Concurrency: 1})
	require.NoError(t, err)
	if _, err := observe.Read(t.Context(), asked, trust.From([]string{trusted}), s.End()); err != nil {
		t.Fatal(err)
	}
	for _, a := range alerts.All() {
		asked.queries = append(asked.queries, a.Query())
	}
	for _, r := range rules.All() {
		asked.queries = append(asked.queries, r.Expr)
	}
	for _, r := range signal.Builtin(time.Minute) {
		for _, source := range r.Sources {
			asked.queries = append(asked.queries, source.Metric)
		}
	}
	families, read := hostile.Families(), map[string]bool{}
	for _, q := range asked.queries {
		for _, name := range namesIn(q) {
			read[name] = true
			if _, ok := hostile.Of(families, name); !ok {
				t.Errorf("%s is read, and no attack forges it: %s", name, q)
			}
		}
	}
	if len(read) < 60 {
		t.Errorf("only %d series are read", len(read))
	}
}

// tokens are the series of an honest tenant's server that writes ten tokens a second.
func tokens(t *testing.T, s State) []storage.Series {
	t.Helper()
	series, err := memstore.Read(`vllm:generation_tokens_total{cluster="east",job="vllm",instance="vllm-0:8000",namespace="chat",pod="vllm-0",model_name="m"} 0+150x120`, memstore.From(s.Start(), Every))
	require.NoError(t, err)
	return series
}

// attacks are all of them in make test-all.
func attacks(many int) []hostile.Attack {
	return slices.DeleteFunc(hostile.Attacks(many), func(a hostile.Attack) bool { return !a.First && !testall.Enabled() })
}

// difference shows where two texts begin to differ.
func difference(want, got string) string {
	i := 0
	for i < min(len(want), len(got)) && want[i] == got[i] {
		i++
	}
	from := max(0, i-150)
	return fmt.Sprintf("got …%s…, without it …%s…", got[from:min(len(got), i+250)], want[from:min(len(want), i+250)])
}
