package compat

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
)

// Args are the variables of a metricsQuery, with v0.12.0's meaning.
type Args struct {
	Series            string
	LabelMatchers     string
	LabelValuesByName map[string]string
	GroupBy           string
	GroupBySlice      []string
}

// queryTemplate is a metricsQuery.
type queryTemplate struct {
	*template.Template
	alone bool // it uses .LabelValuesByName, so a query is for one request only
}

func newQueryTemplate(text string) (queryTemplate, error) {
	t, err := template.New("query").Delims("<<", ">>").Parse(text)
	switch {
	case strings.TrimSpace(text) == "":
		err = errors.New("is required: PromQL like 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'")
	case err != nil:
		err = fmt.Errorf("is no template: %w", err)
	}
	return queryTemplate{t, strings.Contains(text, "LabelValuesByName")}, err
}

// render executes the template. Its text is never empty.
func (q queryTemplate) render(args Args) (string, error) {
	var out strings.Builder
	if err := q.Execute(&out, args); err != nil {
		return "", fmt.Errorf("executing the template: %w", err)
	}
	if text := strings.TrimSpace(out.String()); text != "" {
		return text, nil
	}
	return "", errors.New("the template renders to nothing")
}
