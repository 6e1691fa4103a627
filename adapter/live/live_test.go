package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
)

const head = "prometheus: {url: 'http://127.0.0.1:1'}\nrules:\n"

func rule(name, metric string) string {
	return fmt.Sprintf("- {name: %s, subject: target, sources: [{metric: %s}], perPod: sum, perWorkload: sum}\n", name, metric)
}

func write(t *testing.T, file, text string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func open(t *testing.T, text string) (*Configuration, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	c, err := Open(write(t, filepath.Join(t.TempDir(), "c.yaml"), text), nil, reg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return c, reg
}

func TestABadRuleIsLeftOut(t *testing.T) {
	c, reg := open(t, head+rule("a", "a1")+"- {name: b, subjct: x}\n- {name: gpu_busy}\n- {name: [x]}\n")
	var used []string
	for _, r := range c.Setup().Rules {
		used = append(used, r.Name)
	}
	if got := fmt.Sprint(used); !strings.Contains(got, " a]") || strings.Contains(got, "b]") || strings.Contains(got, "gpu_busy") {
		t.Errorf("%s are in use: a is, b and gpu_busy in its place cannot be read", got)
	}
	const want = `
# HELP gpuscale_adapter_config_reload_good 1 if the configuration file that is there now is in force, 0 if it cannot be used and the one before stays.
# TYPE gpuscale_adapter_config_reload_good gauge
gpuscale_adapter_config_reload_good 1
`
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(want), "gpuscale_adapter_config_reload_good"))
	page, err := testutil.CollectAndFormat(reg, expfmt.TypeTextPlain, "gpuscale_adapter_rule_state")
	require.NoError(t, err)
	for rule, state := range map[string]string{"a": "in_force", "b": "rejected", "gpu_busy": "rejected", "rules[3]": "rejected", "queue_depth": "in_force"} {
		if !strings.Contains(string(page), fmt.Sprintf("{rule=%q,state=%q} 1\n", rule, state)) {
			t.Errorf("%s is not %s:\n%s", rule, state, page)
		}
	}
}

// Changed files that are good in every rule end the program; changed files that are not change nothing, and the metrics
// report them until they are good again.
func TestChanged(t *testing.T) {
	theirs := write(t, filepath.Join(t.TempDir(), "pa.yaml"), "rules: []\n")
	first := "prometheusAdapter: {configFile: " + theirs + "}\n" + head + rule("a", "a1")
	synctest.Test(t, func(t *testing.T) {
		c, _ := open(t, first)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		changed := make(chan bool, 1)
		go func() { changed <- c.Changed(ctx) }()
		pass := func(what string, good bool) {
			t.Helper()
			time.Sleep(Every + time.Millisecond) // of the bubble's clock
			synctest.Wait()
			if (c.Failure() == "") != good || len(changed) > 0 {
				t.Errorf("%s: %v, ended %d", what, c.Failure(), len(changed))
			}
		}
		pass("unchanged", true)
		write(t, c.path, first+"- {name: b, subjct: x}\n")
		pass("one bad rule", false)
		write(t, c.path, first)
		pass("as before", true)
		write(t, theirs, "rules: [{seriesQuery: 'up{'}]\n")
		pass("a bad rule of prometheus-adapter's", false)
		require.NoError(t, os.Remove(c.path))
		pass("no file", false)
		write(t, theirs, "rules: []\n# other\n")
		write(t, c.path, first)
		time.Sleep(Every)
		synctest.Wait()
		if len(changed) != 1 || !<-changed {
			t.Error("another good file is not noticed")
		}
		go func() { changed <- c.Changed(ctx) }()
		stop()
		if <-changed {
			t.Error("the end of the program is a change")
		}
	})
}

func TestAMissingFileCostsItsOwnBackend(t *testing.T) {
	server := promtest.New(t)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	c, _ := open(t, "backends:\n- {name: default, url: '"+server.URL+"'}\n- {name: tls, url: '"+server.URL+"', http: {tls_config: {ca_file: "+ca+"}}}\n")
	ask := func(name string) error {
		_, err := c.Backend(name).QueryWithin(t.Context(), "up", time.Time{}, prom.Limits{})
		return err
	}
	require.NoError(t, ask(""))
	if err := ask("tls"); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("without its CA: %v", err)
	}
	write(t, ca, string(promtest.NewAuthority(t, "ca").PEM))
	if err := ask("tls"); err != nil {
		t.Errorf("with its CA: %v", err)
	}
}

func TestOpenNeedsItsFiles(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{
		"", filepath.Join(dir, "none.yaml"),
		write(t, filepath.Join(dir, "a.yaml"), head[:len(head)-7]+"prometheusAdapter: {configFile: /no/such/file}\n"),
		write(t, filepath.Join(dir, "b.yaml"), "promethus: {}"),
	} {
		if _, err := Open(file, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q opened", file)
		}
	}
}
