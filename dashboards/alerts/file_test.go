package alerts_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/internal/require"
)

const file = "gpuscale-alerts.yaml"

var (
	alertName = regexp.MustCompile(`^(GPU|Gpuscale)[A-Z][A-Za-z]+$`)
	ofLabels  = regexp.MustCompile(`\$labels\.(\w+)`)
)

// Every alert has all texts, in the same form.
func TestEveryAlertIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range alerts.All() {
		if !alertName.MatchString(a.Name) || seen[a.Name] {
			t.Errorf("%s: no name for an alert, or twice", a.Name)
		}
		seen[a.Name] = true
		if !strings.HasSuffix(a.Why, ".") || !strings.HasSuffix(a.Description, ".") || !strings.Contains(a.Description, ". First ") {
			t.Errorf("%s: want why, what it means and what to look at first", a.Name)
		}
		if a.Summary == "" || strings.HasSuffix(a.Summary, ".") || len(a.Summary) > 200 {
			t.Errorf("%s: %q is no summary", a.Name, a.Summary)
		}
		if !slices.Contains([]alerts.Severity{alerts.Critical, alerts.Warning, alerts.Info}, a.Severity) || a.For%time.Minute != 0 {
			t.Errorf("%s: %s for %s", a.Name, a.Severity, a.For)
		}
		if takes := strings.Contains(a.With("@"), "@"); takes != (a.Threshold != 0) {
			t.Errorf("%s: its query has a threshold: %v", a.Name, takes)
		}
		var fired strings.Builder
		for _, c := range checksOf(t, a.Name) {
			fired.WriteString(c.want)
		}
		for _, m := range ofLabels.FindAllStringSubmatch(a.Summary+a.Description, -1) {
			if !strings.Contains(fired.String(), m[1]+`="`) {
				t.Errorf("%s uses the label %s, which it never has", a.Name, m[1])
			}
		}
	}
	// Prometheus reads the file, templates included.
	groups, errs := rulefmt.Parse(alerts.Render(), false, model.UTF8Validation, promQL, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	n := 0
	for _, g := range groups.Groups {
		n += len(g.Rules)
	}
	if n != len(seen) {
		t.Errorf("the file has %d alerts, want %d", n, len(seen))
	}
	if len(seen) > 16 {
		t.Errorf("%d alerts: too many", len(seen))
	}
}

// promtool is the program that make prepare builds, where sandbox/build puts it. In make test it must be there.
func promtool(t *testing.T) string {
	t.Helper()
	tool := filepath.Join(cmp.Or(os.Getenv("GPUSCALE_CACHE"), filepath.Join("..", "..", ".cache")), "sandbox", "prometheus", "promtool")
	_, err := os.Stat(tool)
	switch {
	case err != nil && os.Getenv("GPUSCALE_PREPARED") == "1":
		t.Fatal(err)
	case err != nil:
		t.Skip("promtool is not there: make prepare builds it")
	}
	return tool
}

// Prometheus' own unit tests of rules agree with the cases. The engine of the other tests is a fake of Prometheus.
func TestPromtool(t *testing.T) {
	tool := promtool(t)
	rules, tests := filepath.Join(t.TempDir(), "rules.yaml"), filepath.Join(t.TempDir(), "tests.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(unnamed(string(alerts.Render()))), 0o644))
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n", rules)
	for _, a := range alerts.All() {
		series := ""
		for _, c := range checksOf(t, a.Name) {
			if c.series != series {
				series = c.series
				fmt.Fprintf(&b, "- name: %s\n  interval: 1m\n  input_series:\n", a.Name)
				for _, line := range strings.Split(strings.TrimSpace(series), "\n") {
					i := strings.LastIndex(line, "}") + 1
					if i == 0 {
						i = strings.Index(line, " ")
					}
					fmt.Fprintf(&b, "  - {series: %q, values: %q}\n", line[:i], strings.TrimSpace(line[i:]))
				}
				b.WriteString("  promql_expr_test:\n")
			}
			fmt.Fprintf(&b, "  - expr: 'sum without (alertname, alertstate, severity) (ALERTS{alertname=%q, alertstate=\"firing\"})'\n    eval_time: %s\n    exp_samples:\n", a.Name, c.at)
			if c.want == quiet {
				continue
			}
			for _, labels := range strings.Split(strings.TrimSpace(c.want), "\n") {
				fmt.Fprintf(&b, "    - {labels: %q, value: 1}\n", labels)
			}
		}
	}
	require.NoError(t, os.WriteFile(tests, []byte(b.String()), 0o644))
	if out, err := exec.CommandContext(t.Context(), tool, "check", "rules", "--lint=all", "--lint-fatal", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), tool, "test", "rules", tests).CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
}
