package alerts_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// check is one check of a case: the alerts that fire at a time over these series.
type check struct {
	series string
	at     time.Duration
	want   string
}

const quiet = "quiet\n"

// answer is what a rule fires at a check's time: the label sets that each evaluation during the rule's For has given.
// TestPromtool checks the same cases with Prometheus.
func (c check) answer(ctx context.Context, r rule) (string, error) {
	src, err := parse(c.series)
	if err != nil {
		return "", err
	}
	evaluations := (r.hold+step-1)/step + 1
	query := fmt.Sprintf("count_over_time((%s)[%[2]dm:1m]) == %[2]d", unnamed(r.query), evaluations)
	firing, _, err := memstore.Instant(ctx, engine, src, query, time.UnixMilli(0).Add(c.at))
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.query, err)
	}
	if len(firing) == 0 {
		return quiet, nil
	}
	var lines []string
	for _, one := range firing {
		lines = append(lines, one.Metric.String()+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}

// unnamed trusts targets without a namespace, too: those of the cases that state none.
func unnamed(query string) string {
	return strings.ReplaceAll(query, sources.Matcher, sources.Match([]string{sources.Namespaces, ""}))
}

func caseFile(alert string) string { return filepath.Join("testdata", "cases", alert+".txt") }

// walk reads an alert's cases: "series" with promtool's lines begins one, "firing
// at=DURATION" checks.
func walk(t *testing.T, alert string, visit func(d *datadriven.TestData, c check) string) {
	t.Helper()
	var series string
	datadriven.RunTest(t, caseFile(alert), func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		switch d.Cmd {
		case "series":
			series = d.Input
			if _, err := parse(series); err != nil {
				d.Fatalf(t, "%v", err)
			}
			return ""
		case "firing":
			var text string
			d.ScanArgs(t, "at", &text)
			at, err := time.ParseDuration(text)
			if err != nil || at%step != 0 {
				d.Fatalf(t, "at %s: want whole minutes", text)
			}
			return visit(d, check{series, at, d.Expected})
		}
		d.Fatalf(t, "want series or firing")
		return ""
	})
}

// checksOf are all checks of an alert's cases.
func checksOf(t *testing.T, alert string) []check {
	t.Helper()
	var all []check
	t.Run("reading "+alert, func(t *testing.T) { // else a test that fails would log the reading of the cases
		walk(t, alert, func(d *datadriven.TestData, c check) string {
			all = append(all, c)
			return d.Expected
		})
	})
	return all
}

// Each alert fires as its cases state, and not before. It has cases in which it fires and cases in which it does not.
// Each file belongs to an alert.
func TestCases(t *testing.T) {
	for _, a := range alerts.All() {
		t.Run(a.Name, func(t *testing.T) {
			fires, silent := false, false
			walk(t, a.Name, func(d *datadriven.TestData, c check) string {
				got, err := c.answer(t.Context(), ruleOf(a))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				fires, silent = fires || got != quiet, silent || got == quiet
				return got
			})
			if !fires || !silent {
				t.Errorf("it fires in a case: %v; in one it does not: %v", fires, silent)
			}
		})
	}
	files, err := filepath.Glob(caseFile("*"))
	if err != nil || len(files) != len(alerts.All()) {
		t.Errorf("%d files for %d alerts, %v", len(files), len(alerts.All()), err)
	}
}

// step is the time between two values of a case and between two evaluations: the
// file's interval.
const step = time.Minute

var promQL = parser.NewParser(parser.Options{})

var engine = memstore.NewEngine(promQL)

// parse reads lines of promtool's notation: a value each minute from 0 on.
func parse(lines string) (memstore.Series, error) {
	return memstore.Read(lines, memstore.From(time.UnixMilli(0), step))
}

// rule is an alert that is evaluated, or a mutant of one.
type rule struct {
	query string
	hold  time.Duration
}

func ruleOf(a alerts.Alert) rule { return rule{a.Query(), a.For} }
