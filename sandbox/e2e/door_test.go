package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/preview"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/sandbox/play"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// checkReport reads the report of a story as users would: the page exists, and if the story is long enough,
// every GPU-hour is in exactly one place.
func checkReport(t *testing.T, result play.Result, long bool) {
	t.Helper()
	page, err := os.ReadFile(result.Report.HTML)
	require.NoError(t, err)
	if !strings.HasPrefix(strings.ToLower(string(page)), "<!doctype html>") || !strings.Contains(string(page), "</html>") {
		t.Errorf("%s is no page: %.100q", result.Report.HTML, page)
	}
	raw, err := os.ReadFile(result.Report.JSON)
	require.NoError(t, err)
	var r struct {
		Answer struct {
			Quality struct {
				Grade    string
				Coverage float64
			}
		}
		Hours struct {
			Capacity float64
			Places   []struct {
				Place, Group string
				Hours        float64
			}
		}
		Pools []struct {
			Pool                         string
			Added, Repartitions, Removed float64
		}
	}
	var wrong *json.UnmarshalTypeError
	// Unknown figures are objects. encoding/json reports the first one as an error and decodes the rest.
	if err := json.Unmarshal(raw, &r); errors.As(err, &wrong) && long {
		t.Errorf("%s is unknown", wrong.Field)
	} else if err != nil && wrong == nil {
		t.Fatal(err)
	}
	capacity := r.Hours.Capacity
	if !long && r.Answer.Quality.Coverage == 0 { // a minute may have begun before the programs: then none of it counts
		if capacity != 0 || result.Report.Note == "" {
			t.Errorf("without a record the capacity is %v, and the report says %q", capacity, result.Report.Note)
		}
		return
	}
	if capacity <= 0 {
		t.Fatalf("the capacity is %v", capacity)
	}
	if !long {
		return
	}
	sum, productive := 0.0, 0.0
	for _, p := range r.Hours.Places {
		sum += p.Hours
		if p.Group == "productive" {
			productive += p.Hours
		}
	}
	if math.Abs(sum-capacity) > 0.001*capacity {
		t.Errorf("the places add up to %.4f hours, the capacity is %.4f", sum, capacity)
	}
	if productive <= 0 {
		t.Error("no GPU has done anything")
	}
	if q := r.Answer.Quality; q.Coverage < 0.95 || q.Grade == "poor" || result.Report.Note != "" {
		t.Errorf("the data are %s: %v of the window; %s", q.Grade, q.Coverage, result.Report.Note)
	}
	if len(r.Pools) != 2 {
		t.Errorf("%d pools, want the story's two", len(r.Pools))
	}
	for _, p := range r.Pools { // actions before the end of the first step are not counted
		t.Logf("%s: %v added, %v repartitions, %v removed", p.Pool, p.Added, p.Repartitions, p.Removed)
	}
}

// checkAlerts: in a healthy fleet no alert fires that pages, and the alerting rules were loaded and
// evaluated.
func checkAlerts(t *testing.T, result play.Result) {
	t.Helper()
	alerts := result.Summary.Alerts
	if !alerts.Known {
		t.Error("the alerts are unknown")
	}
	for _, a := range alerts.Fired {
		t.Logf("%s (%s) fired", a.Name, a.Severity)
		if a.Severity == "critical" {
			t.Errorf("%s fired", a.Name)
		}
	}
	for _, a := range alerts.Pending {
		if a.Severity == "critical" {
			t.Errorf("%s would have fired had the demo gone on", a.Name)
		}
	}
}

// checkRules asks Prometheus whether it evaluates our rule files. It evaluates a group for the first time
// within the group's interval, which may be longer than the story.
func checkRules(t *testing.T, prometheus string) {
	t.Helper()
	await.For(t, testenv.Patience, "the rules evaluated", func() error {
		var answer struct {
			Data struct {
				Groups []struct {
					Rules []struct {
						Name, Type, Health, LastError string
					}
				}
			}
		}
		_, body := get(t, prometheus+"/api/v1/rules")
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			return err
		}
		types := map[string]int{}
		for _, g := range answer.Data.Groups {
			for _, r := range g.Rules {
				types[r.Type]++
				if r.Health != "ok" {
					return fmt.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
				}
			}
		}
		if types["recording"] < 10 || types["alerting"] < 10 {
			return fmt.Errorf("these rules: %v", types)
		}
		return nil
	})
}

// panel matches the start of a panel on a board's page: its title, followed by its description.
var panel = regexp.MustCompile(`<section title="([^"\n]*)\n\n`)

// leastPanels is the minimum number of panels with a value, over all boards, at the end of a demo without
// faults and quotas.
const leastPanels = 80

// checkBoards opens every board by the links from the first one, until enough panels have a value: some show rates over
// more time than a short story takes.
func checkBoards(t *testing.T, first string) {
	t.Helper()
	home, err := url.Parse(first)
	require.NoError(t, err)
	_, page := get(t, first)
	await.For(t, testenv.Patience, "the boards have values", func() error {
		seen, full, all := map[string]bool{}, 0, 0
		var empty []string
		for _, link := range regexp.MustCompile(`href="(/gpuscale-[a-z]+)\?`).FindAllStringSubmatch(page, -1) {
			if seen[link[1]] {
				continue
			}
			seen[link[1]] = true
			code, board := get(t, home.Scheme+"://"+home.Host+link[1]+"?"+home.RawQuery)
			if code != http.StatusOK || !strings.Contains(board, preview.Label) {
				return fmt.Errorf("%s: %d: %.200s", link[1], code, board)
			}
			starts := panel.FindAllStringSubmatchIndex(board, -1)
			all += len(starts)
			for i, at := range starts {
				end := len(board)
				if i+1 < len(starts) {
					end = starts[i+1][0]
				}
				if strings.Contains(board[at[0]:end], ">n/a<") {
					empty = append(empty, board[at[2]:at[3]])
				} else {
					full++
				}
			}
		}
		if want := len(boards.All()); len(seen) != want || full < leastPanels {
			return fmt.Errorf("%d boards with values in %d of %d panels, want %d with %d; without: %s", len(seen), full, all, want, leastPanels, strings.Join(empty, ", "))
		}
		return nil
	})
}

// checkPasted runs the lines that the demo prints for pasting.
func checkPasted(t *testing.T, lines string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pasted")
	require.NoError(t, os.WriteFile(file, []byte(lines), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "sh", file).CombinedOutput() // gpuscale-report top has another exit code for unknown values
	for _, want := range []string{"vllm-", "embed-", "train-", "h100-mig", "3g.40gb", "queue_depth", " free "} {
		if !strings.Contains(string(out), want) {
			t.Errorf("what was pasted gives nothing with %q:\n%s", want, out)
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(body)
}
