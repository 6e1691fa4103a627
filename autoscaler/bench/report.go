package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what a run has found.
type report struct {
	Nodes      int      `json:"nodes"`
	Prometheus bool     `json:"prometheus"`
	Scheduler  string   `json:"scheduler"`
	LoadBefore string   `json:"loadBefore"`
	LoadAfter  string   `json:"loadAfter"`
	Figures    []figure `json:"figures"`
}

// figure is one thing that was measured.
type figure struct {
	Scene string   `json:"scene"`
	Name  string   `json:"name"`
	Value float64  `json:"value"`
	Unit  string   `json:"unit,omitempty"`
	Goal  *float64 `json:"goal,omitempty"` // at most; nil for none
	// Peer is what cluster-autoscaler took for the same, measured elsewhere.
	Peer   string   `json:"clusterAutoscaler,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Missed bool     `json:"missed,omitempty"`
}

// cluster-autoscaler's figures for as many pods: with its KWOK provider, default
// flags, nodes and pods of the same shapes. 500 pods were beside 1,000 full nodes,
// the others alone.
var (
	peerFirst  = map[int]string{20: "30.8", 200: "31.7", 500: "39.1", 2000: "30.5"}
	peerLast   = map[int]string{20: "31.1", 200: "34.9", 500: "47.7", 2000: "70.3"}
	peerBought = map[int]string{20: "1.18", 200: "1.12", 500: "1.13", 2000: "1.10"}
	peerCalls  = map[int]string{20: "13", 200: "127", 500: "318", 2000: "1239"}
	peerLoop   = map[int]string{20: "1.2", 200: "2.3", 500: "8.7", 2000: "32.6"}
	peerCPU    = map[int]string{20: "0.12", 200: "0.5", 500: "2.2", 2000: "4.4"}
	peerRSS    = map[int]string{20: "77", 200: "88", 500: "148", 2000: "157"}
)

func atMost(v float64) *float64 { return &v }

func goalIf(when bool, v float64) *float64 {
	if !when {
		return nil
	}
	return &v
}

func (r *report) add(scene, name string, value float64, unit string, goal *float64, peer string) {
	const rounding = 1e-9
	r.Figures = append(r.Figures, figure{Scene: scene, Name: name, Value: value, Unit: unit, Goal: goal, Peer: peer, Missed: goal != nil && value > *goal+rounding})
}

// note adds to the figure added last.
func (r *report) note(text string) {
	f := &r.Figures[len(r.Figures)-1]
	f.Notes = append(f.Notes, text)
}

// fail is a goal that has no number.
func (r *report) fail(scene, what string) {
	r.Figures = append(r.Figures, figure{Scene: scene, Name: what, Missed: true})
}

// burst adds what became of a burst's pods. Goals in time are for up to 200 pods and
// for 2,000.
func (r *report) burst(n int, lives []life, calls []call, from time.Time) {
	scene := fmt.Sprintf("%d pods", n)
	goal := 1.0
	if n > 200 {
		goal = 2
	}
	waits, unneeded := answered(lives, calls)
	r.add(scene, "pending to call, p50", quantile(waits, .5), "s", atMost(goal), "")
	r.add(scene, "p99", quantile(waits, .99), "s", atMost(goal), "")
	if unneeded > 0 {
		r.note(fmt.Sprintf("%d pods needed no call: there was room when they were pending", unneeded))
	}
	first, final, bought := time.Time{}, time.Time{}, int64(0)
	for _, c := range calls {
		if c.to > c.from {
			bought += c.to - c.from
			final = c.at
			if first.IsZero() {
				first = c.at
			}
		}
	}
	marked := slices.Collect(func(yield func(time.Time) bool) {
		for _, l := range lives {
			if !l.pending.IsZero() && !yield(l.pending) {
				return
			}
		}
	})
	if len(marked) > 0 {
		r.add(scene, "last pod pending", slices.MaxFunc(marked, time.Time.Compare).Sub(from).Seconds(), "s", nil, "")
		r.note("since the first pod was made, as all times below")
	}
	r.add(scene, "first call", first.Sub(from).Seconds(), "s", nil, peerFirst[n])
	r.add(scene, "last call", final.Sub(from).Seconds(), "s", nil, peerLast[n])
	r.add(scene, "nodes bought / bound", float64(bought)/float64(bound(n)), "", atMost(1.01), peerBought[n])
	r.note(fmt.Sprintf("%d / %d", bought, bound(n)))
	r.add(scene, "calls", float64(len(calls)), "", nil, peerCalls[n])
	runs := make([]float64, 0, len(lives))
	for _, l := range lives {
		runs = append(runs, l.running.Sub(from).Seconds())
	}
	r.add(scene, "all run", quantile(runs, 1), "s", nil, "")
}

// answered says how long each pod that was pending waited for the call with which
// the pools have cards for it and for all that were pending before it, in seconds;
// and how many needed no call.
func answered(lives []life, calls []call) (waits []float64, unneeded int) {
	lives = slices.DeleteFunc(slices.Clone(lives), func(l life) bool { return l.pending.IsZero() })
	slices.SortFunc(lives, func(a, b life) int { return cmp.Or(a.pending.Compare(b.pending), cmp.Compare(a.name, b.name)) })
	need, have, next := int64(0), int64(0), 0
	var at time.Time
	for _, l := range lives {
		need += int64(l.cards)
		for have < need && next < len(calls) {
			have += (calls[next].to - calls[next].from) * cardsOfNode
			at = calls[next].at
			next++
		}
		if have < need {
			break // no call was for it: it fitted beside others
		}
		if at.Before(l.pending) {
			unneeded++
			continue
		}
		waits = append(waits, at.Sub(l.pending).Seconds())
	}
	return waits, unneeded
}

// quantile of values in any order, 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// perMinute adds the requests by verb.
func (r *report) perMinute(scene string, asked requests, over time.Duration) {
	verbs := map[string]int{}
	for what, n := range asked {
		verb, _, _ := strings.Cut(what, " ")
		verbs[verb] += n
	}
	for _, verb := range slices.Sorted(maps.Keys(verbs)) {
		r.add(scene, verb+" requests", float64(verbs[verb])/over.Minutes(), "a minute", nil, "")
		mine := requests{}
		for what, n := range asked {
			if strings.HasPrefix(what, verb+" ") {
				mine[what] = n
			}
		}
		r.note(mine.text())
	}
}

// text lists what there is most of.
func (r requests) text() string {
	const most = 6
	what := slices.SortedFunc(maps.Keys(r), func(a, b string) int { return cmp.Or(cmp.Compare(r[b], r[a]), cmp.Compare(a, b)) })
	var out []string
	for _, w := range what[:min(most, len(what))] {
		out = append(out, fmt.Sprintf("%d %s", r[w], w))
	}
	if len(what) > most {
		out = append(out, "…")
	}
	return strings.Join(out, ", ")
}

func (r *report) print(w io.Writer, format string) error {
	if format == "json" {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%d full nodes, Prometheus %v, scheduler %s; load average %s before, %s after\n\nscene\tfigure\tmeasured\tgoal\t\tcluster-autoscaler\t\n", r.Nodes, r.Prometheus, r.Scheduler, r.LoadBefore, r.LoadAfter)
	scene := ""
	for _, f := range r.Figures {
		shown := ""
		if f.Scene != scene {
			shown, scene = f.Scene, f.Scene
		}
		goal, verdict := "", ""
		if f.Goal != nil {
			goal, verdict = "≤ "+number(*f.Goal), "ok"
		}
		if f.Missed {
			verdict = "MISSED"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", shown, f.Name, strings.TrimSpace(number(f.Value)+" "+f.Unit), goal, verdict, f.Peer, strings.Join(f.Notes, "; "))
	}
	return t.Flush()
}

func number(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// missed says which goals were missed, each in a sentence.
func (r *report) missed() []string {
	var out []string
	for _, f := range r.Figures {
		if f.Missed && f.Goal == nil {
			out = append(out, f.Scene+": "+f.Name)
		} else if f.Missed {
			out = append(out, fmt.Sprintf("%s: %s: %s, not at most %s", f.Scene, f.Name, strings.TrimSpace(number(f.Value)+" "+f.Unit), number(*f.Goal)))
		}
	}
	return out
}
