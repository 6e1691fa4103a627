package live

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

const head = "prometheus: {url: 'http://127.0.0.1:1'}\nrules:\n"

func rule(name, metric string) string {
	return fmt.Sprintf("- {name: %s, subject: target, sources: [{metric: %s}], perPod: sum, perWorkload: sum}\n", name, metric)
}

// world is a file and the last setup applied.
type world struct {
	t       *testing.T
	file    string
	config  *Configuration
	reg     *prometheus.Registry
	applied []cache.Setup
	refuse  error
}

func newWorld(t *testing.T, text string) *world {
	t.Helper()
	w := &world{t: t, file: filepath.Join(t.TempDir(), "c.yaml"), reg: prometheus.NewRegistry()}
	w.write(text)
	c, err := Open(w.file, nil, w.reg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w.config = c
	return w
}

func (w *world) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// change writes a file and lets it be noticed.
func (w *world) change(text string) {
	w.t.Helper()
	w.write(text)
	w.config.look(func(s cache.Setup) error {
		w.applied = append(w.applied, s)
		return w.refuse
	})
}

// rules returns what each own rule reads, and its state.
func (w *world) rules() map[string]string {
	got := map[string]string{}
	for _, r := range w.config.Force().Rules {
		if r.Path == "" && r.State == InForce {
			continue // built-in
		}
		got[r.Name] = string(r.State)
		if r.InUse != nil {
			got[r.Name] += " " + r.InUse.Sources[0].Metric
		}
	}
	return got
}

func (w *world) expect(want map[string]string) {
	w.t.Helper()
	got := w.rules()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%v, not %v", got, want)
	}
}

func TestABadRuleKeepsItsLastGoodVersionAndNoOther(t *testing.T) {
	w := newWorld(t, head+rule("a", "a1")+rule("b", "b1"))
	w.expect(map[string]string{"a": "in_force a1", "b": "in_force b1"})
	// a turns bad, b changes, c is bad from the start, gpu_busy displaces a
	// built-in rule.
	w.change(head + "- {name: a, subjct: x}\n" + rule("b", "b2") + "- {name: c}\n" + "- {name: gpu_busy}\n")
	w.expect(map[string]string{"a": "kept a1", "b": "in_force b2", "c": "rejected", "gpu_busy": "kept " + metric.GPUBusyRatio.Name})
	w.change(head + rule("b", "b2") + rule("a", "a2"))
	w.expect(map[string]string{"a": "in_force a2", "b": "in_force b2"})
	// An invalid name may be any rule's.
	w.change(head + rule("b", "b3") + "- {name: [a]}\n")
	w.expect(map[string]string{"a": "kept a2", "b": "in_force b3", "rules[1]": "rejected"})
	w.change(head + rule("b", "b3"))
	w.expect(map[string]string{"b": "in_force b3"})
	if n := len(w.applied); n != 4 {
		t.Errorf("applied %d times", n)
	}
	for _, s := range w.applied[len(w.applied)-1:] {
		for _, r := range s.Rules {
			if r.Name == "a" {
				t.Error("a removed rule is still asked")
			}
		}
	}
}

func TestABadFileKeepsEverything(t *testing.T) {
	w := newWorld(t, head+rule("a", "a1"))
	before := w.config.Force()
	for _, text := range []string{"{", "promtheus: {}", "prometheus: {url: ftp://x}", head + rule("a", "a2") + "intervall: 1s", ""} {
		w.change(text)
		w.change(text) // logged once
		f := w.config.Force()
		if f.Failure == nil || f.Hash != before.Hash || f.Since != before.Since {
			t.Errorf("%q: %+v", text, f)
		}
		w.expect(map[string]string{"a": "in_force a1"})
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	w.config.look(nil)
	if f := w.config.Force(); !errors.Is(f.Failure, os.ErrNotExist) {
		t.Errorf("%v", f.Failure)
	}
	const want = `
# HELP gpuscale_adapter_config_reload_failures_total Contents of the configuration file that could not be used.
# TYPE gpuscale_adapter_config_reload_failures_total counter
gpuscale_adapter_config_reload_failures_total 6
# HELP gpuscale_adapter_config_reload_good 1 if the configuration file that is there now is in force, 0 if it cannot be used and the one before stays. Bad rules do not count.
# TYPE gpuscale_adapter_config_reload_good gauge
gpuscale_adapter_config_reload_good 0
`
	if err := testutil.GatherAndCompare(w.reg, strings.NewReader(want), "gpuscale_adapter_config_reload_failures_total", "gpuscale_adapter_config_reload_good"); err != nil {
		t.Error(err)
	}
	if len(w.applied) != 0 {
		t.Errorf("applied %d times", len(w.applied))
	}
	w.change(head + rule("a", "a1")) // back to what is in force
	if f := w.config.Force(); f.Failure != nil || len(w.applied) != 0 {
		t.Errorf("%v, applied %d times", f.Failure, len(w.applied))
	}
	if problems, err := testutil.GatherAndLint(w.reg); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

// What the cache refuses is not in force, whatever the file says and however
// it gets back there.
func TestWhatIsRefusedIsNotInForce(t *testing.T) {
	w := newWorld(t, head+rule("a", "a1"))
	before := w.config.Force()
	backend := w.config.Setup().Backends[0]
	w.refuse = errors.New("cannot apply")
	moved := strings.Replace(head, "127.0.0.1:1'", "127.0.0.1:2'", 1)
	for _, text := range []string{moved + rule("a", "a2"), "{", moved + rule("a", "a2")} {
		w.change(text)
		if f := w.config.Force(); f.Failure == nil || f.Hash != before.Hash || f.Since != before.Since {
			t.Errorf("%q: %+v", text, f)
		}
		w.expect(map[string]string{"a": "in_force a1"})
		if w.config.Setup().Backends[0] != backend {
			t.Error("the backend has changed")
		}
	}
	w.refuse = nil
	w.change(moved + rule("a", "a3"))
	w.expect(map[string]string{"a": "in_force a3"})
	if w.config.Force().Failure != nil || w.config.Setup().Backends[0] == backend {
		t.Errorf("%+v", w.config.Force())
	}
}

func TestRestartIsRequiredForSomeFields(t *testing.T) {
	var log strings.Builder
	w := newWorld(t, head+rule("a", "a1"))
	w.config.log = slog.New(slog.NewTextHandler(&log, nil))
	w.change(head + rule("a", "a2"))
	if strings.Contains(log.String(), "next start") {
		t.Error(log.String())
	}
	w.change("forward: {external: {service: keda.keda}}\n" + head + rule("a", "a2"))
	if !strings.Contains(log.String(), "take effect after a restart") {
		t.Error(log.String())
	}
}

// A ConfigMap volume is a link to a link: a new version appears by a rename
// two levels up, and the file's own directory entry never changes.
func TestAConfigMapIsNoticedInFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		volume := t.TempDir()
		put := func(version, text string) {
			dir := filepath.Join(volume, version)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(volume, "..data_tmp")
			if err := os.Symlink(version, link); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(link, filepath.Join(volume, "..data")); err != nil {
				t.Fatal(err)
			}
		}
		put("..v1", head+rule("a", "a1"))
		file := filepath.Join(volume, "c.yaml")
		if err := os.Symlink("..data/c.yaml", file); err != nil {
			t.Fatal(err)
		}
		c, err := Open(file, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		tables, err := cache.New(c.Setup(), prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx, tables.Apply); close(done) }()
		defer func() { cancel(); <-done }()
		reads := func() string {
			for _, r := range tables.Rules() {
				if r.Name == "a" {
					return r.Sources[0].Metric
				}
			}
			return "nothing"
		}
		put("..v2", head+rule("a", "a2"))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if got := reads(); got != "a2" {
			t.Errorf("five seconds later the rule reads %s", got)
		}
	})
}

func TestAKeptRuleNeedsItsBackend(t *testing.T) {
	const two = "backends:\n- {name: default, url: 'http://127.0.0.1:1'}\n- {name: other, url: 'http://127.0.0.1:2'}\nrules:\n"
	other := strings.Replace(rule("a", "a1"), "name: a", "name: a, backend: other", 1)
	w := newWorld(t, two+other)
	w.change(head + other)
	w.expect(map[string]string{"a": "rejected"})
	if got := w.config.Force().Rules; !strings.Contains(fmt.Sprint(got), `no backend is called "other"`) {
		t.Errorf("%+v", got)
	}
}

// A backend is made again when its configuration changes, keeps its connections
// when it does not, and a missing file affects no other backend.
func TestBackendsChange(t *testing.T) {
	one, two := promtest.New(t), promtest.New(t)
	text := func(url, token string) string {
		return "backends:\n- {name: default, url: '" + one.URL + "'}\n- {name: other, url: '" + url + "', bearerTokenFile: '" + token + "'}\n"
	}
	token := filepath.Join(t.TempDir(), "token")
	w := newWorld(t, text(one.URL, token))
	ask := func(name string) error {
		for _, b := range w.config.Setup().Backends {
			if b.Name == name {
				_, err := b.Querier.Query(t.Context(), "up", time.Time{})
				return err
			}
		}
		return errors.New("no such backend")
	}
	before := w.config.Setup()
	if err := ask("default"); err != nil {
		t.Error(err)
	}
	if err := ask("other"); !errors.Is(err, prom.ErrUnavailable) {
		t.Errorf("without its token: %v", err)
	}
	if err := os.WriteFile(token, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask("other"); err != nil {
		t.Errorf("with its token: %v", err)
	}
	w.change(text(two.URL, token))
	if err := ask("other"); err != nil || len(two.Queries()) != 1 || two.Queries()[0].Header.Get("Authorization") != "Bearer hush" {
		t.Errorf("the new address: %v, %d queries", err, len(two.Queries()))
	}
	after := w.config.Setup()
	if before.Backends[0] != after.Backends[0] {
		t.Error("the backend that did not change is a new one")
	}
	if before.Backends[1].Version == after.Backends[1].Version || strings.Contains(after.Backends[1].Version, "127.0.0.1") {
		t.Errorf("versions %s, %s", before.Backends[1].Version, after.Backends[1].Version)
	}
	if _, err := w.config.Backend("other").Client(); err != nil {
		t.Error(err)
	}
	if _, err := w.config.Backend("nowhere").Client(); err == nil {
		t.Error("a client without users")
	}
}

func TestAMissingCACostsItsOwnBackend(t *testing.T) {
	server := promtest.New(t)
	w := newWorld(t, "backends:\n- {name: default, url: '"+server.URL+"'}\n- {name: tls, url: 'https://127.0.0.1:1', caFile: /no/such/ca.crt}\n")
	for _, b := range w.config.Setup().Backends {
		_, err := b.Querier.Query(t.Context(), "up", time.Time{})
		if (err != nil) != (b.Name == "tls") {
			t.Errorf("%s: %v", b.Name, err)
		}
	}
	if n := len(server.Queries()); n != 1 || server.Queries()[0].Method != http.MethodPost {
		t.Errorf("%d queries", n)
	}
}

func TestOpenNeedsAFile(t *testing.T) {
	for _, file := range []string{"", filepath.Join(t.TempDir(), "none.yaml")} {
		if _, err := Open(file, nil, prometheus.NewRegistry(), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%q opened", file)
		}
	}
}
