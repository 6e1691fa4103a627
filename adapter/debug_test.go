package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/live"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

func TestTheRulesPageSaysWhatThereIs(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	f, err := config.Read("c.yaml", []byte("prometheus: {url: http://x}"))
	if err != nil {
		t.Fatal(err)
	}
	force := live.Force{
		File: f, Hash: "abc", Since: now, Failure: fmt.Errorf("c.yaml:7: x"),
		Rules: []live.Rule{
			{Name: "queue_depth", State: live.InForce},
			{Name: "mine", Line: 4, State: live.Kept, Problems: []string{"c.yaml:4: rules[0].subjct: unknown field"}},
		},
	}
	questions := []cache.Status{
		{Rule: "queue_depth", Backend: "default", Query: `a<b`, Active: true, At: now.Add(-2 * time.Second), Series: 5, Dropped: map[signal.Reason]int{signal.Stale: 2}},
		{Rule: "mine", Backend: "thanos", Query: "m", Failure: prom.ErrUnavailable},
	}
	for i := range maxQuestions + 3 {
		questions = append(questions, cache.Status{Rule: "rules[0]", Query: fmt.Sprint(i), Active: true})
	}
	theirs := []compat.RuleState{
		{Rule: "rules[0]", SeriesQuery: "s", File: "pa.yaml", Line: 2, Metrics: []string{"m"}},
		{Rule: "rules[1]", File: "pa.yaml", Line: 9, Problems: []string{"bad template"}, Broken: true},
		{Rule: "rules[2]", SeriesQuery: "s", File: "pa.yaml", Line: 12, Problems: []string{"bad template"}, Broken: true},
	}
	page := newRulesPage(force, theirs, questions, now)
	rows := map[string]ruleRow{}
	for _, r := range page.Rules {
		rows[r.Name] = r
	}
	q := rows["queue_depth"].Questions[0]
	if q.AgeSeconds == nil || *q.AgeSeconds != 2 || q.Series != 5 || q.Dropped["stale"] != 2 || rows["queue_depth"].Active != 1 {
		t.Errorf("%+v", rows["queue_depth"])
	}
	if m := rows["mine"]; m.State != "kept" || m.At != "c.yaml:4" || m.Questions[0].AgeSeconds != nil || m.Questions[0].Failure == "" {
		t.Errorf("%+v", m)
	}
	if r := rows["rules[0]"]; r.At != "pa.yaml:2" || r.Left != 3 || len(r.Questions) != maxQuestions || r.Active != maxQuestions+3 {
		t.Errorf("%+v", r)
	}
	if r, k := rows["rules[1]"], rows["rules[2]"]; r.State != "rejected" || k.State != "kept" {
		t.Errorf("%+v, %+v", r, k)
	}
	var text strings.Builder
	page.text(&text)
	for _, want := range []string{
		"NOT IN FORCE:\nc.yaml:7: x", "mine: kept (c.yaml:4), 0 questions active\n  problem: c.yaml:4: rules[0].subjct",
		"default: a<b\n    answered 2.0 s ago, 5 series; left out: 2 stale", "no answer yet; idle; last query failed: prometheus unavailable", "and 3 more", "  serves: m\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s\nlacks %q", text.String(), want)
		}
	}
}

// The whole program, as far as it goes without a cluster: the page is for
// those who may see it, follows the file, and keeps secrets.
func TestTheRulesPageIsGuardedAndFollowsTheFile(t *testing.T) {
	cluster := newFakeKube(t)
	cluster.allow = func(user string) bool { return user == "operator" }
	discovering := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/api":
			reply(w, map[string]any{"kind": "APIVersions", "versions": []string{}})
		case "/apis":
			reply(w, map[string]any{"kind": "APIGroupList", "apiVersion": "v1", "groups": []string{}})
		default:
			cluster.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(discovering.Close)
	prometheus := promtest.New(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	head := "prometheus:\n  url: " + prometheus.URL + "\n  headers: {X-Scope-OrgID: hush-tenant}\n  bearerTokenFile: " + filepath.Join(dir, "token") + "\nrules:\n"
	write("token", "hush-token")
	write("c.yaml", head+"- {name: mine, like: queue_depth}\n- {name: broken}\n")
	s := serving(t, discovering.URL, file)
	s.waitReady(t, cluster)
	cluster.ready.Store(true)

	operator := s.client(t, cluster.clientCA, "operator")
	for name, c := range map[string]*http.Client{"unknown": s.client(t, nil, ""), "a user": s.client(t, cluster.clientCA, "user")} {
		if code, body := s.get(t, c, "/debug/rules", nil); code != http.StatusForbidden && code != http.StatusUnauthorized || strings.Contains(body, "mine") {
			t.Errorf("%s: HTTP %d %s", name, code, body)
		}
	}
	page := func() (p rulesPage, raw string) {
		t.Helper()
		code, raw := s.get(t, operator, "/debug/rules", nil)
		if err := json.Unmarshal([]byte(raw), &p); err != nil || code != http.StatusOK {
			t.Fatalf("HTTP %d %s: %v", code, raw, err)
		}
		return p, raw
	}
	row := func(p rulesPage, name string) (found ruleRow) {
		for _, r := range p.Rules {
			if r.Name == name {
				found = r
			}
		}
		return found
	}
	p, raw := page()
	if r := row(p, "mine"); r.State != "in_force" || len(r.Questions) != 1 || r.At != file+":6" {
		t.Errorf("%+v", r)
	}
	if r := row(p, "broken"); r.State != "rejected" || len(r.Problems) == 0 {
		t.Errorf("a bad rule kept the program from serving, or is not reported: %+v", r)
	}
	_, metrics := s.get(t, operator, "/metrics", nil)
	if strings.Contains(raw+metrics, "hush") {
		t.Error("a secret is shown")
	}
	if !strings.Contains(metrics, `gpuscale_adapter_rule_state{rule="broken",state="rejected"} 1`) {
		t.Error("the state of a rule is no metric")
	}

	write("c.yaml", head+"- {name: yours, like: queue_depth}\n")
	await.For(t, time.Minute, "the file is followed", func() error {
		if p, _ = page(); row(p, "yours").State != "in_force" || row(p, "mine").Name != "" {
			return fmt.Errorf("%+v", p)
		}
		return nil
	})
	if code, body := s.get(t, operator, "/debug/rules?format=text", nil); code != http.StatusOK || !strings.Contains(body, "yours: in_force") {
		t.Errorf("HTTP %d %s", code, body)
	}
}

// serving runs the program on a port of its own until the test ends.
func serving(t *testing.T, clusterURL, file string) *testServer {
	t.Helper()
	base, address := listening(t, clusterURL)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, base, file, nil, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
	return &testServer{address: address}
}
