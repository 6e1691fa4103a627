package eval

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
)

// Window is the selected time, and the resolution.
type Window struct {
	From, To time.Time
	Step     time.Duration
	Scrape   time.Duration // the data source's scrape interval
}

// Vars are the chosen values of a board's variables, as regular expressions.
type Vars map[string]string

// All chooses everything.
func All(b board.Board) Vars {
	vars := Vars{}
	for _, v := range b.Vars {
		vars[v.Name] = board.All
	}
	return vars
}

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
