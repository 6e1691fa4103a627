package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/compat"
	"github.com/gpuscale/gpuscale/adapter/config"
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
	compat.RuleState
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
	add := func(s compat.RuleState, its []cache.Status) {
		shown := min(len(its), maxQuestions)
		page.Rules = append(page.Rules, ruleRow{RuleState: s, Questions: append([]cache.Status{}, its[:shown]...), Left: len(its) - shown})
	}
	for _, r := range ours {
		add(compat.StateOf(r.Title(), r.At(page.File), r.Problems), questions[r.Name])
	}
	for _, s := range others {
		add(s, questions[s.Name])
	}
	return page
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
