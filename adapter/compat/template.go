package compat

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"text/template/parse"
)

// Args are the variables of a metricsQuery, with v0.12.0's meaning.
type Args struct {
	Series            string
	LabelMatchers     string
	LabelValuesByName map[string]string
	GroupBy           string
	GroupBySlice      []string
}

const (
	maxLoopDepth  = 3
	maxQueryBytes = 256 << 10
)

// queryTemplate is a metricsQuery. It is restricted so that a file cannot block
// the adapter: no nested templates, and loops over the two lists only.
type queryTemplate struct {
	template *template.Template
	// values is why the text is more than a plain substitution of the matchers;
	// "" if it is not.
	values string
}

func newQueryTemplate(text string) (*queryTemplate, error) {
	if strings.TrimSpace(text) == "" {
		return nil, errors.New("is required: PromQL like 'sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)'")
	}
	t, err := template.New("query").Delims("<<", ">>").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("is no template: %w", err)
	}
	if t.Tree == nil || len(t.Templates()) > 1 {
		return nil, errors.New("defines templates of its own, which are not supported")
	}
	w := walker{}
	if err := w.list(t.Root, 0); err != nil {
		return nil, err
	}
	return &queryTemplate{template: t, values: w.values}, nil
}

// render executes the template. Its text is never empty.
func (q *queryTemplate) render(args Args) (string, error) {
	out := limited{left: maxQueryBytes}
	if err := q.template.Execute(&out, args); err != nil {
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

// wholeDot finds a dot that is an argument by itself.
var wholeDot = regexp.MustCompile(`(^|[\s(])\.([\s)|]|$)`)

// walker checks a template before it runs.
type walker struct{ values string }

func (w *walker) list(l *parse.ListNode, depth int) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := w.node(n, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) node(n parse.Node, depth int) error {
	switch n := n.(type) {
	case *parse.ActionNode:
		if !plainField(n.Pipe) {
			w.pipe(n.Pipe, depth)
		}
	case *parse.IfNode:
		return w.branch(&n.BranchNode, depth)
	case *parse.WithNode:
		return w.branch(&n.BranchNode, depth)
	case *parse.RangeNode:
		if depth == maxLoopDepth {
			return fmt.Errorf("has loops within loops, more than %d deep", maxLoopDepth)
		}
		if over := fieldName(n.Pipe); over != "GroupBySlice" && over != "LabelValuesByName" {
			return errors.New("loops over something other than .GroupBySlice or .LabelValuesByName")
		}
		return w.branch(&n.BranchNode, depth+1)
	case *parse.TemplateNode:
		return errors.New("calls a template, which is not supported")
	}
	return nil
}

func (w *walker) branch(b *parse.BranchNode, depth int) error {
	w.pipe(b.Pipe, depth)
	if err := w.list(b.List, depth); err != nil {
		return err
	}
	return w.list(b.ElseList, depth)
}

// pipe records a use of request values that is not a plain substitution.
func (w *walker) pipe(p *parse.PipeNode, depth int) {
	text := p.String()
	switch {
	case depth == 0 && wholeDot.MatchString(text):
		w.values = "the template uses all its arguments at once"
	case strings.Contains(text, "LabelValuesByName"):
		w.values = "the template uses .LabelValuesByName"
	case strings.Contains(text, "LabelMatchers"):
		w.values = "the template computes with .LabelMatchers"
	case strings.Contains(text, "$") && !strings.Contains(text, "GroupBySlice"):
		w.values = "the template has variables"
	}
}

// plainField reports whether a pipe substitutes one field unchanged, other than
// the map of values.
func plainField(p *parse.PipeNode) bool {
	name := fieldName(p)
	return len(p.Decl) == 0 && name != "" && name != "LabelValuesByName"
}

// fieldName returns the only field of a pipe, or "".
func fieldName(p *parse.PipeNode) string {
	if len(p.Cmds) != 1 || len(p.Cmds[0].Args) != 1 {
		return ""
	}
	switch arg := p.Cmds[0].Args[0].(type) {
	case *parse.FieldNode:
		if len(arg.Ident) == 1 {
			return arg.Ident[0]
		}
	case *parse.VariableNode:
		if len(arg.Ident) == 2 && arg.Ident[0] == "$" {
			return arg.Ident[1]
		}
	}
	return ""
}
