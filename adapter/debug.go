package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

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
	Alone     string        `json:"alone,omitempty"`
	Problems  []string      `json:"problems,omitempty"`
	Questions []questionRow `json:"questions"`
	// Left is the number of questions not shown.
	Left int `json:"left,omitempty"`
}

// questionRow is one query of a rule.
type questionRow struct {
	Backend   string `json:"backend"`
	Namespace string `json:"namespace,omitempty"`
	Query     string `json:"query"`
	// Alone: the namespace is asked about by itself, since its series were at fault
	// less than ten minutes ago.
	Alone bool `json:"alone,omitempty"`
	// AgeSeconds is the time since the last good answer; null before the first.
	AgeSeconds *float64       `json:"ageSeconds"`
	Series     int            `json:"series"`
	Dropped    map[string]int `json:"dropped,omitempty"`
	Failure    string         `json:"failure,omitempty"`
}

// newRulesPage fills in a page's rules.
func newRulesPage(page rulesPage, ours []config.Declared, others []compat.RuleState, all []cache.Status, now time.Time) rulesPage {
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
		page.Rules = append(page.Rules, row.with(questions[r.Name], now))
	}
	for _, r := range others {
		row := ruleRow{
			Name: r.Rule, State: live.InForce, At: fmt.Sprintf("%s:%d", r.File, r.Line), Metrics: r.Metrics, Alone: r.Alone, Problems: r.Problems,
		}
		if r.Broken {
			row.State = live.Rejected
		}
		page.Rules = append(page.Rules, row.with(questions[r.Rule], now))
	}
	return page
}

func (r ruleRow) with(questions []cache.Status, now time.Time) ruleRow {
	r.Questions = []questionRow{}
	for _, s := range questions {
		if len(r.Questions) == maxQuestions {
			r.Left++
			continue
		}
		q := questionRow{Backend: s.Backend, Namespace: s.Namespace, Query: s.Query, Alone: s.Alone, Series: s.Series, Dropped: map[string]int{}}
		if !s.At.IsZero() {
			age := now.Sub(s.At).Seconds()
			q.AgeSeconds = &age
		}
		for reason, n := range s.Dropped {
			q.Dropped[string(reason)] = n
		}
		if s.Failure != nil {
			q.Failure = s.Failure.Error()
		}
		r.Questions = append(r.Questions, q)
	}
	return r
}

// text writes the page as plain text.
func (p rulesPage) text(w io.Writer) {
	_, _ = fmt.Fprintf(w, "%s, hash %s, in force since %s\n", p.File, p.Hash, p.Since.Format(time.RFC3339))
	if p.Failure != "" {
		_, _ = fmt.Fprintf(w, "THE CURRENT FILE IS NOT IN FORCE:\n%s\n", p.Failure)
	}
	for _, r := range p.Rules {
		_, _ = fmt.Fprintf(w, "\n%s: %s (%s), asked in %d namespaces\n", r.Name, r.State, r.At, len(r.Questions)+r.Left)
		for _, problem := range r.Problems {
			_, _ = fmt.Fprintf(w, "  problem: %s\n", problem)
		}
		if len(r.Metrics) > 0 {
			_, _ = fmt.Fprintf(w, "  serves: %s\n", strings.Join(r.Metrics, ", "))
		}
		if r.Alone != "" {
			_, _ = fmt.Fprintf(w, "  a query for each request: %s\n", r.Alone)
		}
		for _, q := range r.Questions {
			_, _ = fmt.Fprintf(w, "  %s, namespace %s: %s\n    %s\n", q.Backend, q.Namespace, q.Query, q.sentence())
		}
		if r.Left > 0 {
			_, _ = fmt.Fprintf(w, "  and %d more\n", r.Left)
		}
	}
}

func (q questionRow) sentence() string {
	parts := []string{"no answer yet"}
	if q.AgeSeconds != nil {
		parts = []string{fmt.Sprintf("answered %.1f s ago, %d series", *q.AgeSeconds, q.Series)}
	}
	var dropped []string
	for reason, n := range q.Dropped {
		dropped = append(dropped, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(dropped)
	if len(dropped) > 0 {
		parts = append(parts, "left out: "+strings.Join(dropped, ", "))
	}
	if q.Alone {
		parts = append(parts, "asked about by itself")
	}
	if q.Failure != "" {
		parts = append(parts, "last query failed: "+q.Failure)
	}
	return strings.Join(parts, "; ")
}

// debugRules serves the page: JSON, or text with ?format=text.
func debugRules(page func() rulesPage) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := page()
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if req.URL.Query().Get("format") == "text" {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			p.text(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetEscapeHTML(false) // PromQL is full of < and >
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(p) // the caller has gone
	})
}
