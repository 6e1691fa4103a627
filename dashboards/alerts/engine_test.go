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

// firing are the label sets that fire at a time, sorted: those that each evaluation of the
// rule's For has given. It is a fake of Prometheus; TestPromtool has Prometheus judge the same
// cases.
func (r rule) firing(ctx context.Context, src storage.Queryable, at time.Time) ([]string, error) {
	lines, err := memstore.Range(ctx, engine, src, r.query, time.UnixMilli(0), at, step)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.name, err)
	}
	var firing []string
	for _, l := range lines {
		since := at.Add(step)
		for _, p := range slices.Backward(l.Points) {
			if !p.Time.Equal(since.Add(-step)) {
				break
			}
			since = p.Time
		}
		if at.Sub(since) >= r.hold {
			firing = append(firing, l.Labels.MatchLabels(false, labels.MetricName).String())
		}
	}
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
