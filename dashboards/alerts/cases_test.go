package alerts_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
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
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := alerts.Find(strings.TrimSuffix(f.Name(), ".txt")); !ok {
			t.Errorf("%s belongs to no alert", f.Name())
		}
	}
	if len(files) != len(alerts.All()) {
		t.Error(fmt.Sprint(len(files), " files for ", len(alerts.All()), " alerts"))
	}
}
