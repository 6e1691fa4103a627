package story

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Measures are the words an expectation may use; the sandbox measures them.
func Measures() []string {
	return []string{
		"queue",          // requests waiting
		"rate",           // requests a second, traffic time
		"left",           // requests of the trace still to come or open
		"replicas",       // of the Deployment that serves
		"ready_replicas", //
		"pending_pods",   // GPU pods without a node
		"repartitions",   // changes of layout that succeeded
		"repartitions_begun",
		"scale_ups",   // nodes bought
		"scale_downs", // nodes given back
		"nodes",       // GPU nodes of the pools
		"nodes_ready",
		"exporters",         // exporter processes that Prometheus sees up
		"wrong_scale_downs", // nodes given back while they held pods or pods waited
		"lost_requests",
	}
}

// Condition compares one measure with a number.
type Condition struct {
	Measure string
	Op      string // == != < <= > >=
	Number  float64
}

func (c Condition) String() string {
	return c.Measure + " " + c.Op + " " + strconv.FormatFloat(c.Number, 'g', -1, 64)
}

// Expectation is a list of conditions that must hold together.
type Expectation struct {
	Name   string // for people; empty: its conditions
	All    []Condition
	Within time.Duration // after the expectation before it; 0 for "always"
}

func (e Expectation) String() string {
	if e.Name != "" {
		return e.Name
	}
	words := make([]string, len(e.All))
	for i, c := range e.All {
		words[i] = c.String()
	}
	return strings.Join(words, " and ")
}

// parseExpectation reads ["name"] measure op number [and …] [within DURATION].
func parseExpectation(verb string, words []string) (Expectation, error) {
	var e Expectation
	if len(words) > 0 && !slices.Contains(Measures(), words[0]) {
		e.Name, words = words[0], words[1:]
	}
	for {
		if len(words) < 3 {
			return e, errors.New(verb + ": want: measure op number")
		}
		c := Condition{Measure: words[0], Op: words[1]}
		if !slices.Contains(Measures(), c.Measure) {
			return e, fmt.Errorf("%s: unknown measure %q", verb, c.Measure)
		}
		if !slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, c.Op) {
			return e, fmt.Errorf("%s: unknown comparison %q", verb, c.Op)
		}
		n, err := strconv.ParseFloat(words[2], 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return e, fmt.Errorf("%s: %q is not a number", verb, words[2])
		}
		c.Number = n
		e.All = append(e.All, c)
		words = words[3:]
		if len(words) == 0 || words[0] != "and" {
			break
		}
		words = words[1:]
	}
	if verb == "always" {
		if len(words) > 0 {
			return e, fmt.Errorf("always: %q is too much", words[0])
		}
		return e, nil
	}
	if len(words) != 2 || words[0] != "within" {
		return e, errors.New("expect: ends with: within DURATION")
	}
	d, err := time.ParseDuration(words[1])
	if err != nil || d <= 0 {
		return e, fmt.Errorf("expect: %q is not a time like 90s", words[1])
	}
	e.Within = d
	return e, nil
}
