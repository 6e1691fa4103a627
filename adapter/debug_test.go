package main

import (
	"encoding/json"
	"errors"
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
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/strict"
)

func TestTheRulesPageSaysWhatThereIs(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	head := rulesPage{File: "c.yaml", Hash: "abc", Since: now, Failure: "c.yaml:7: x"}
	ours := []config.Declared{
		{Name: "queue_depth"},
		{Name: "mine", Line: 4, Problems: []strict.Problem{{File: "c.yaml", Line: 4, Path: "rules[0].subjct", Err: errors.New("unknown field")}}},
	}
	questions := []cache.Status{
		{Rule: "queue_depth", Backend: "default", Namespace: "chat", Query: `a<b`, AgeSeconds: new(2.0), Series: 5, Dropped: map[signal.Reason]int{signal.Stale: 2}},
		{Rule: "mine", Backend: "thanos", Namespace: "chat", Query: "m", Alone: true, Failure: "prometheus unavailable"},
	}
	for i := range maxQuestions + 3 {
		questions = append(questions, cache.Status{Rule: "rules[0]", Query: fmt.Sprint(i)})
	}
	theirs := []compat.RuleState{
		{Name: "rules[0]", State: compat.InForce, At: "pa.yaml:2", Metrics: []string{"m"}},
		{Name: "rules[1]", State: compat.Rejected, Problems: []string{"bad template"}},
	}
	page := newRulesPage(head, ours, theirs, questions)
	rows := map[string]ruleRow{}
	for _, r := range page.Rules {
		rows[r.Name] = r
	}
	q := rows["queue_depth"].Questions[0]
	if q.AgeSeconds == nil || *q.AgeSeconds != 2 || q.Series != 5 || q.Dropped["stale"] != 2 {
		t.Errorf("%+v", rows["queue_depth"])
	}
	if m := rows["mine"]; m.State != "rejected" || m.At != "c.yaml:4" || m.Questions[0].AgeSeconds != nil || m.Questions[0].Failure == "" {
		t.Errorf("%+v", m)
	}
	if r := rows["rules[0]"]; r.At != "pa.yaml:2" || r.Left != 3 || len(r.Questions) != maxQuestions {
		t.Errorf("%+v", r)
	}
	if r := rows["rules[1]"]; r.State != "rejected" {
		t.Errorf("%+v", r)
	}
	w := httptest.NewRecorder()
	debugRules(func() rulesPage { return page }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/debug/rules?format=text", nil))
	for _, want := range []string{"failure: 'c.yaml:7: x'", "query: a<b", "at: c.yaml:4", "stale: 2", "alone: true", "left: 3"} {
		if text := w.Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %q", text, want)
		}
	}
}

// The whole program, as far as it goes without a cluster: the page needs authorization and shows no secrets, and a
// changed file ends the program.
func TestTheRulesPageIsGuardedAndTheProgramFollowsTheFile(t *testing.T) {
	cluster := newFakeKube(t, "operator")
	prometheus := promtest.New(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "c.yaml")
	write := func(name, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	head := "prometheus:\n  url: " + prometheus.URL + "\n  http: {http_headers: {X-Scope-OrgID: {values: [hush-tenant]}}, authorization: {credentials_file: " + filepath.Join(dir, "token") + "}}\nrules:\n"
	write("token", "hush-token")
	write("c.yaml", head+"- {name: mine, like: queue_depth}\n- {name: broken}\n")
	s := serving(t, cluster.url, file)
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
	if r := row(p, "mine"); r.State != "in_force" || len(r.Questions) != 0 || r.At != file+":5" {
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
	for ready := http.StatusOK; ready == http.StatusOK; {
		ready, _, _ = s.fetch(t.Context(), operator, "/readyz", nil)
	}
	for range 20 { // until the aggregator notices, it sends requests here
		operator = s.client(t, cluster.clientCA, "operator")
		page()
	}
	select {
	case <-s.ended: // kubelet starts it again
	case <-time.After(time.Minute):
		t.Error("the program does not end although its file is another one")
	}
}

// serving runs the program on a port of its own until the test ends.
func serving(t *testing.T, clusterURL, file string) *testServer {
	t.Helper()
	base, address := listening(t, clusterURL)
	ended := make(chan struct{})
	var err error
	go func() {
		defer close(ended)
		err = serve(t.Context(), base, &certificateFlags{}, file, func(*config.Config) {}, slog.New(slog.DiscardHandler))
	}()
	t.Cleanup(func() {
		if <-ended; err != nil {
			t.Errorf("the program ended with %v", err)
		}
	})
	return &testServer{address: address, ended: ended}
}
