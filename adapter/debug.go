package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/live"
)

// maxQuestions bounds the questions shown per rule.
const maxQuestions = 20

// rulesPage is /debug/rules.
type rulesPage struct {
	File    string    `json:"file"`
	Hash    string    `json:"hash"`
	Since   time.Time `json:"since"`
	Failure string    `json:"failure,omitempty"`
	Rules   []ruleRow `json:"rules"`
}

// ruleRow is one rule of the page.
type ruleRow struct {
	Name    string   `json:"name"`
	State   string   `json:"state"`
	At      string   `json:"at,omitempty"` // file:line
	Metrics []string `json:"metrics,omitempty"`
	// Alone is why each request has a question of its own; "" if they share.
	Alone     string         `json:"alone,omitempty"`
	Problems  []string       `json:"problems,omitempty"`
	Questions []cache.Status `json:"questions"`
	// Left is the number of questions not shown.
	Left int `json:"left,omitempty"`
}

// newRulesPage fills in a page's rules.
func newRulesPage(page rulesPage, ours []config.Declared, others []compat.RuleState, all []cache.Status) rulesPage {
	questions := map[string][]cache.Status{}
	for _, s := range all {
		questions[s.Rule] = append(questions[s.Rule], s)
	}
	for _, r := range ours {
		row := ruleRow{Name: r.Title(), State: live.State(r), At: "built in"}
		if r.Line > 0 {
			row.At = fmt.Sprintf("%s:%d", page.File, r.Line)
		}
		for _, p := range r.Problems {
			row.Problems = append(row.Problems, p.Error())
		}
		page.Rules = append(page.Rules, row.with(questions[r.Name]))
	}
	for _, r := range others {
		row := ruleRow{
			Name: r.Rule, State: live.InForce, At: fmt.Sprintf("%s:%d", r.File, r.Line), Metrics: r.Metrics, Alone: r.Alone, Problems: r.Problems,
		}
		if r.Broken {
			row.State = live.Rejected
		}
		page.Rules = append(page.Rules, row.with(questions[r.Rule]))
	}
	return page
}

func (r ruleRow) with(questions []cache.Status) ruleRow {
	shown := min(len(questions), maxQuestions)
	r.Questions, r.Left = append([]cache.Status{}, questions[:shown]...), len(questions)-shown
	return r
}

// debugRules serves the page: JSON, or YAML with ?format=text.
func debugRules(page func() rulesPage) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var text bytes.Buffer
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false) // PromQL is full of < and >
		encoder.SetIndent("", "  ")
		err, kind, raw := encoder.Encode(page()), "application/json", text.Bytes()
		if err == nil && req.URL.Query().Get("format") == "text" {
			kind = "text/plain; charset=utf-8"
			raw, err = yaml.JSONToYAML(raw)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(raw) // the caller has gone
	})
}
