package eval

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscale/gpuscale/dashboards/board"
)

// Window is the selected time range and its resolution.
type Window struct {
	From, To time.Time
	Step     time.Duration
	Scrape   time.Duration // the data source's scrape interval
}

var reference = regexp.MustCompile(`\$(?:\{(\w+)(?::\w+)?\}|(\w+))`)

// Fill replaces the variables in a query: Grafana's own by the window's values, the board's by all their
// values. An unknown name is an error: Grafana would send it unchanged, and Prometheus would find nothing.
func Fill(expr string, b board.Board, w Window) (string, error) {
	var unknown []string
	out := reference.ReplaceAllStringFunc(expr, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		name := m[1] + m[2]
		switch _, err := strconv.Atoi(name); {
		case err == nil:
			return ref // label_replace's "$1" is not a variable; Grafana keeps it
		case name == "__interval":
			return seconds(w.Step)
		case name == "__rate_interval": // four scrapes at least
			return seconds(max(w.Step+w.Scrape, 4*w.Scrape))
		case name == "__range":
			return seconds(w.To.Sub(w.From))
		case !slices.ContainsFunc(b.Vars, func(v board.Var) bool { return v.Name == name }):
			unknown = append(unknown, name)
		}
		return board.All
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("no such variable: %s", strings.Join(unknown, ", "))
	}
	return out, nil
}

func seconds(d time.Duration) string {
	return fmt.Sprintf("%ds", int(math.Max(1, math.Ceil(d.Seconds()))))
}
