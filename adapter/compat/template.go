package compat

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
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

const maxQueryBytes = 256 << 10

// Actions of a template that might not end: templates of its own, and loops over anything
// but the two lists, which are loops.
var (
	ownTemplates = regexp.MustCompile(`<<-?\s*(define|block|template)\b`)
	loops        = regexp.MustCompile(`<<-?\s*range\b`)
	listLoops    = regexp.MustCompile(`<<-?\s*range\s+(\$\w+\s*(,\s*\$\w+\s*)?:=\s*)?\$?\.(GroupBySlice|LabelValuesByName)\s*-?>>`)
)

// queryTemplate is a metricsQuery. It is restricted so that a file cannot block
// the adapter: no nested templates, and loops over the two lists only.
type queryTemplate struct {
	*template.Template
	alone bool // it uses .LabelValuesByName, whose values are those of one request
}

func newQueryTemplate(text string) (queryTemplate, error) {
	t, err := template.New("query").Delims("<<", ">>").Parse(text)
	switch {
	case strings.TrimSpace(text) == "":
		err = errors.New("is required: PromQL like 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'")
	case err != nil:
		err = fmt.Errorf("is no template: %w", err)
	case ownTemplates.MatchString(text):
		err = errors.New("has templates of its own, which are not supported")
	case len(loops.FindAllString(text, -1)) > len(listLoops.FindAllString(text, -1)):
		err = errors.New("loops over something other than .GroupBySlice or .LabelValuesByName")
	}
	return queryTemplate{t, strings.Contains(text, "LabelValuesByName")}, err
}

// render executes the template. Its text is never empty.
func (q queryTemplate) render(args Args) (string, error) {
	out := limited{left: maxQueryBytes}
	if err := q.Execute(&out, args); err != nil {
		return "", fmt.Errorf("executing the template: %w", err)
	}
	if text := strings.TrimSpace(out.String()); text != "" {
		return text, nil
	}
	return "", errors.New("the template renders to nothing")
}

type limited struct {
	bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, fmt.Errorf("the query is longer than %d bytes", maxQueryBytes)
	}
	return l.Buffer.Write(p)
}
