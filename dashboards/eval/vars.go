package eval

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// Window is the selected time, and the resolution.
type Window struct {
	From, To time.Time
	Step     time.Duration
	Scrape   time.Duration // the data source's scrape interval
}

// Vars are the chosen values of a board's variables, as regular expressions.
type Vars map[string]string

var reference = regexp.MustCompile(`\$(?:\{(\w+)(?::\w+)?\}|(\w+))`)

// Fill puts the values of variables into a query. An unknown name is an error: Grafana
// would send it as it is, and Prometheus would find nothing.
func Fill(expr string, vars Vars, w Window) (string, error) {
	var unknown []string
	out := reference.ReplaceAllStringFunc(expr, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		name := m[1] + m[2]
		if value, ok := w.builtin(name); ok {
			return value
		}
		if _, err := strconv.Atoi(name); err == nil {
			return ref // label_replace's "$1" is not a variable; Grafana keeps it
		}
		value, ok := vars[name]
		if !ok {
			unknown = append(unknown, name)
		}
		return strings.ReplaceAll(value, `\`, `\\`)
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("no such variable: %s", strings.Join(unknown, ", "))
	}
	return out, nil
}

// builtin are Grafana's own variables: the rate interval is four scrapes at least.
func (w Window) builtin(name string) (string, bool) {
	seconds := func(d time.Duration) string { return fmt.Sprintf("%ds", int(math.Max(1, math.Ceil(d.Seconds())))) }
	switch name {
	case "__interval":
		return seconds(w.Step), true
	case "__rate_interval":
		return seconds(max(w.Step+w.Scrape, 4*w.Scrape)), true
	case "__range":
		return seconds(w.To.Sub(w.From)), true
	}
	return "", false
}

// Values queries the values of a variable, sorted.
func Values(ctx context.Context, src Source, v dashboard.VariableModel, vars Vars, w Window) ([]string, error) {
	if v.Query == nil || v.Query.Map == nil {
		return nil, fmt.Errorf("variable %s has no query", v.Name)
	}
	text, _ := v.Query.Map["query"].(string)
	expr, pick, err := valuesOf(text, v)
	if err != nil {
		return nil, err
	}
	if expr, err = Fill(expr, vars, w); err != nil {
		return nil, fmt.Errorf("variable %s: %w", v.Name, err)
	}
	lines, err := src.Instant(ctx, expr, w.To)
	if err != nil {
		return nil, fmt.Errorf("variable %s: %w", v.Name, err)
	}
	var values []string
	for _, l := range lines {
		if value := l.Labels[pick]; value != "" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values, nil
}

var (
	labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	queryResult = regexp.MustCompile(`^query_result\((.+)\)$`)
	picked      = regexp.MustCompile(`^/(\w+)="\(\[\^"\]\+\)"/$`)
)

// valuesOf returns the query behind a variable, and the label its values are in.
func valuesOf(text string, v dashboard.VariableModel) (expr, label string, err error) {
	if m := labelValues.FindStringSubmatch(text); m != nil {
		return "group by (" + m[2] + ") (" + m[1] + ")", m[2], nil
	}
	if m := queryResult.FindStringSubmatch(text); m != nil && v.Regex != nil {
		if p := picked.FindStringSubmatch(*v.Regex); p != nil {
			return m[1], p[1], nil
		}
	}
	return "", "", fmt.Errorf("variable %s: unknown kind of query: %s", v.Name, text)
}

// All selects everything for the variables that allow it, and the first value for the others.
func All(ctx context.Context, src Source, d dashboard.Dashboard, w Window) (Vars, error) {
	vars := Vars{"datasource": "prometheus"}
	for _, v := range d.Templating.List {
		switch {
		case v.Type == dashboard.VariableTypeDatasource:
		case v.AllValue != nil:
			vars[v.Name] = *v.AllValue
		default:
			values, err := Values(ctx, src, v, vars, w)
			if err != nil {
				return nil, err
			}
			vars[v.Name] = ""
			if len(values) > 0 {
				vars[v.Name] = values[0]
			}
		}
	}
	return vars, nil
}
