package alerts_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// step is the time between two values of a case and between two evaluations: the
// file's interval.
const step = time.Minute

var promQL = parser.NewParser(parser.Options{})

var engine = memstore.NewEngine(promQL)

// scraped gives the series of a case the namespace of their target, as Prometheus does. A series
// that has a namespace keeps it.
func scraped(lines string) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		name, rest, braced := strings.Cut(line, "{")
		switch {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		case !braced:
			name, rest, _ = strings.Cut(line, " ")
			line = name + `{namespace="` + sources.Namespaces + `"} ` + rest
		case !strings.Contains(rest, " namespace=") && !strings.HasPrefix(rest, "namespace="):
			line = name + `{namespace="` + sources.Namespaces + `", ` + rest
		}
		b.WriteString(line)
	}
	return b.String()
}

// parse reads lines of promtool's notation: a value each minute from 0 on.
func parse(lines string) (memstore.Series, error) {
	return memstore.Read(scraped(lines), memstore.From(time.UnixMilli(0), step))
}

// rule is what is evaluated: an alert, or a mutant of one.
type rule struct {
	name, query string
	hold        time.Duration
}

func ruleOf(a alerts.Alert) rule { return rule{a.Name, a.Query(), a.For} }

// watch is a fake of Prometheus' evaluation of an alerting rule: pending from the first
// evaluation that gives a label set, firing after the rule's For. TestPromtool runs the
// same cases in Prometheus.
type watch struct {
	rule
	since map[string]time.Time // by label set
}

func newWatch(r rule) *watch { return &watch{r, map[string]time.Time{}} }

// evaluate returns the label sets that fire, sorted.
func (w *watch) evaluate(ctx context.Context, src storage.Queryable, now time.Time) ([]string, error) {
	v, _, err := memstore.Instant(ctx, engine, src, w.query, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.name, err)
	}
	next, firing := map[string]time.Time{}, []string{}
	for _, s := range v {
		key := s.Metric.DropReserved(func(n string) bool { return n == labels.MetricName }).String()
		if _, twice := next[key]; twice {
			return nil, fmt.Errorf("%s: two series would be the same alert %s", w.name, key)
		}
		next[key] = now
		if since, ok := w.since[key]; ok {
			next[key] = since
		}
		if now.Sub(next[key]) >= w.hold {
			firing = append(firing, key)
		}
	}
	w.since = next
	slices.Sort(firing)
	return firing, nil
}

// reads are the families that a query reads, sorted.
func reads(t *testing.T, query string) []string {
	t.Helper()
	names, err := eval.Reads(query)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
