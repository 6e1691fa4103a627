package alerts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/dashboards/sources"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// check is one check of a case: what fires at a time over these series.
type check struct {
	series string
	at     time.Duration
	want   string
}

const quiet = "quiet\n"

// answer is what fires of a rule at a check's time.
func (c check) answer(ctx context.Context, r rule) (string, error) {
	src, err := parse(c.series)
	if err != nil {
		return "", err
	}
	firing, err := r.firing(ctx, src, time.UnixMilli(0).Add(c.at).UTC())
	if err != nil {
		return "", err
	}
	if len(firing) == 0 {
		return quiet, nil
	}
	return strings.Join(firing, "\n") + "\n", nil
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
	t.Run("reading "+alert, func(t *testing.T) { // what is read would be logged where a test fails
		walk(t, alert, func(d *datadriven.TestData, c check) string {
			all = append(all, c)
			return d.Expected
		})
	})
	return all
}

// Each alert fires as its cases state, and not before.
func TestCases(t *testing.T) {
	for _, a := range alerts.All() {
		t.Run(a.Name, func(t *testing.T) {
			walk(t, a.Name, func(d *datadriven.TestData, c check) string {
				got, err := c.answer(t.Context(), ruleOf(a))
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				return got
			})
		})
	}
}

// Each alert has cases in which it fires and in which it does not, and each file belongs
// to an alert.
func TestEveryAlertHasCases(t *testing.T) {
	for _, a := range alerts.All() {
		fires, silent := 0, 0
		for _, c := range checksOf(t, a.Name) {
			if c.want == quiet {
				silent++
			} else {
				fires++
			}
		}
		if fires == 0 || silent == 0 {
			t.Errorf("%s: %d checks in which it fires, %d in which it does not", a.Name, fires, silent)
		}
	}
	files, err := os.ReadDir(filepath.Join("testdata", "cases"))
	require.NoError(t, err)
	for _, f := range files {
		if _, ok := alerts.Find(strings.TrimSuffix(f.Name(), ".txt")); !ok {
			t.Errorf("%s belongs to no alert", f.Name())
		}
	}
	if len(files) != len(alerts.All()) {
		t.Error(fmt.Sprint(len(files), " files for ", len(alerts.All()), " alerts"))
	}
}

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
