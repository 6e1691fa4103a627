package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuscale/gpuscale/dashboards/alerts"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/proc"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// muted lists the alerts that a cause mutes in its cluster.
var muted = map[string][]string{
	"GpuscaleAdapterDown":    {"GpuscaleHPAWithoutMetric", "GpuscaleAdapterRuleWithoutAnswer"},
	"GpuscaleAutoscalerDown": {"GpuscaleSnapshotStale", "GpuscaleHolding"},
	"GpuscaleHolding":        {"GpuscalePoolAtMax", "GpuscaleTenantStarved"},
}

// TestNeighbourAlertmanager sends every alert of ours to Alertmanager as Prometheus would, with the
// inhibition rules of docs/runbooks/README.md. A cause mutes its consequences in its own cluster only. All
// other alerts notify.
func TestNeighbourAlertmanager(t *testing.T) {
	testall.Neighbours(t)
	root, err := build.FindRoot()
	require.NoError(t, err)
	program, err := build.Alertmanager.Program(t.Context(), build.Options{Root: root, Out: os.Stderr}, "alertmanager")
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", "README.md"))
	require.NoError(t, err)
	_, rules, _ := strings.Cut(string(page), "```text\ninhibit_rules:\n")
	rules, _, ok := strings.Cut(rules, "```")
	if !ok {
		t.Fatal("docs/runbooks/README.md has no inhibition rules")
	}

	var mu sync.Mutex
	notified := map[string]bool{} // "cluster alert"
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct {
			Alerts []struct{ Labels map[string]string }
		}
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range message.Alerts {
			notified[a.Labels["cluster"]+" "+a.Labels["alertname"]] = true
		}
	}))
	defer hook.Close()

	dir, at := t.TempDir(), testenv.FreeAddress(t)
	config := filepath.Join(dir, "alertmanager.yml")
	text := fmt.Sprintf("route: {receiver: hook, group_by: [alertname], group_wait: 1s, group_interval: 1s}\n"+
		"receivers: [{name: hook, webhook_configs: [{url: %q}]}]\ninhibit_rules:\n%s", hook.URL, rules)
	require.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	testenv.Beside(t, proc.Spec{Name: "alertmanager", Path: program, Log: filepath.Join(dir, "log"), Args: []string{
		"--config.file=" + config, "--storage.path=" + dir, "--web.listen-address=" + at, "--cluster.listen-address=",
	}})

	// In cluster "all" every alert fires; in "" too, but without the label; in "none" all alerts except the causes.
	causes := slices.Collect(maps.Keys(muted))
	want := map[string]bool{}
	var first, then []map[string]string
	for _, a := range alerts.All() {
		for _, cluster := range []string{"all", "", "none"} {
			labels := map[string]string{"alertname": a.Name, "severity": string(a.Severity)}
			if cluster != "" {
				labels["cluster"] = cluster
			}
			consequence := slices.ContainsFunc(causes, func(c string) bool { return slices.Contains(muted[c], a.Name) })
			switch cause := slices.Contains(causes, a.Name); {
			case cause && cluster == "none":
				continue
			case cause:
				first = append(first, labels)
			default:
				then = append(then, labels)
			}
			if cluster == "none" || !consequence {
				want[cluster+" "+a.Name] = true
			}
		}
	}
	api := "http://" + at + "/api/v2/alerts"
	await.For(t, testenv.Patience, "sending the causes", func() error { return send(api, first) })
	await.For(t, testenv.Patience, "Alertmanager has them", func() error { return received(api, len(first)) })
	require.NoError(t, send(api, then))
	await.For(t, testenv.Patience, "the notifications", func() error {
		mu.Lock()
		defer mu.Unlock()
		if !maps.Equal(notified, want) {
			return fmt.Errorf("%v, want %v", slices.Sorted(maps.Keys(notified)), slices.Sorted(maps.Keys(want)))
		}
		return nil
	})
	if err := received(api, len(first)+len(then)); err != nil {
		t.Error(err)
	}
}

// send posts alerts as Prometheus does.
func send(url string, labels []map[string]string) error {
	var all []map[string]any
	for _, l := range labels {
		all = append(all, map[string]any{"labels": l})
	}
	body, err := json.Marshal(all)
	if err != nil {
		return err
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s: %s", url, resp.Status)
	}
	return nil
}

// received reports whether Alertmanager has this number of alerts, muted ones included.
func received(url string, want int) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var all []json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return err
	}
	if len(all) != want {
		return fmt.Errorf("%d alerts, want %d", len(all), want)
	}
	return nil
}
