package model

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscale/gpuscale/gpu/metric"
	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/report/query"
)

// Action is a recommendation.
type Action struct {
	ID         string `json:"id" doc:"Equal for the same action in another report."`
	Kind       string `json:"kind" doc:"\"reclaim\", \"right-size\", \"shrink-pool\", \"repartition\", \"strand\", \"replace\", \"grow-pool\", \"raise-quota\" or \"raise-hpa\"."`
	Effect     string `json:"effect" doc:"\"frees\" GPU-hours, or \"serves\" pending demand."`
	Title      string `json:"title"`
	Hours      Number `json:"hours" doc:"GPU-hours of the window it concerns; of raise-hpa hours of the clock."`
	Money      Number `json:"money" doc:"What those cost."`
	Patch      string `json:"patch" doc:"What to run, or to change."`
	Risk       string `json:"risk"`
	Confidence string `json:"confidence" doc:"\"high\", \"medium\" or \"low\"."`
	Because    string `json:"because" doc:"What the confidence rests on."`
	Query      string `json:"query" doc:"PromQL that gives the hours when evaluated at window.until."`
}

// Effects of an action.
const (
	frees  = "frees"
	serves = "serves"
)

// worthwhile is the least share of the capacity's hours that an action concerns.
const worthwhile = 0.001

// actions derives recommendations from the other sections. Each has the PromQL that
// gives its hours, so that its figure can be verified.
func (m *maker) actions() []Action {
	var all []Action
	idle, reclaimed := m.reclaim()
	all = append(all, idle...)
	all = append(all, m.smaller(reclaimed)...)
	all = append(all, m.shrink()...)
	all = append(all, m.scattered()...)
	all = append(all, m.replace()...)
	all = append(all, m.grow()...)
	all = append(all, m.raiseHPAs()...)
	least := worthwhile * m.l.Capacity / hour
	all = slices.DeleteFunc(all, func(a Action) bool { return a.Kind != "raise-hpa" && a.Hours.Or(0) < least })
	slices.SortStableFunc(all, func(a, b Action) int {
		return cmp.Or(strings.Compare(a.Effect, b.Effect), cmp.Compare(b.Money.Or(-1), a.Money.Or(-1)), cmp.Compare(b.Hours.Or(-1), a.Hours.Or(-1)), strings.Compare(a.ID, b.ID))
	})
	return all
}

// action completes one about a subject: its id, equal in another report, and what its
// confidence rests on, which is that of the window where none is given.
func (m *maker) action(a Action, subject ...string) Action {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(subject, "\xff"))) // never fails
	a.ID = fmt.Sprintf("%s-%08x", a.Kind, h.Sum32())
	word, because := m.confidence()
	a.Confidence, a.Because = cmp.Or(a.Confidence, word), lacks(because, a.Because)
	if a.Effect == serves {
		a.Money = Unknown("it serves demand, it saves nothing")
	}
	return a
}

// sampled is the query behind a figure: an expression over the window, in its
// steps, times a factor.
func (m *maker) sampled(expression string, factor float64) string {
	w := m.a.Window
	q := query.Sampled(expression, w.Length(), w.Coarse)
	if factor != 1 {
		q += " * " + strconv.FormatFloat(factor, 'g', -1, 64)
	}
	return q
}

// confidence is how well a figure of the past predicts: by the length of the window and
// the share of it with a record.
func (m *maker) confidence() (word, because string) {
	days, seen := m.r.Window.Hours/24, m.r.Answer.Quality.Coverage.Or(0)
	because = fmt.Sprintf("window of %.3g days, %s of it with a record", days, percent(seen))
	switch {
	case days >= 7 && seen >= 0.95:
		return "high", because
	case days >= 1 && seen >= 0.8:
		return "medium", because
	}
	return "low", because
}

// gauge is GPUs of a pool in a state, on the coarse grid, and the expression.
func (m *maker) gauge(pool, state string) ([]float64, string) {
	values := slices.Repeat([]float64{math.NaN()}, m.coarse.N+1)
	for _, l := range m.a.Lines[query.GPUs] {
		if l.Labels.Get(metric.LabelPool) == pool && l.Labels.Get(metric.LabelState) == state {
			addUp(values, m.values(l))
		}
	}
	expression := "sum (max by (" + metric.LabelPool + ", " + metric.LabelModel + ") (" +
		m.a.Dialect.Select(metric.AutoscalerGPUs.Name, query.Equal(metric.LabelPool, pool), query.Equal(metric.LabelState, state)) + "))"
	return values, expression
}

// reclaim is about pods that did not compute for a quarter of an hour or more, by
// workload. It also returns the workloads of which most is proposed to be reclaimed.
func (m *maker) reclaim() ([]Action, map[workKey]bool) {
	var all []Action
	taken := map[workKey]bool{}
	d := m.a.Dialect
	for _, w := range m.sortedWork() {
		idle, _, _ := m.markedHours(w.idle)
		allocated, _, _ := m.markedHours(w.allocated)
		if idle == 0 {
			continue
		}
		taken[w.workKey] = idle > allocated/2
		things := "whole GPUs"
		if w.profile != "" {
			things = w.profile + " slices"
		}
		verb, patch, word, because := "has", w.stop(), "", ""
		if !w.atEnd() {
			verb, word, because = "had", "low", "nothing was allocated to it at the end"
			patch = fmt.Sprintf("kubectl -n %s get deployments,statefulsets,jobs,cronjobs | grep %s   # nothing to stop now: see what may start it again", text.Quote(w.namespace), text.Quote(w.name))
		}
		all = append(all, m.action(Action{
			Kind: "reclaim", Effect: frees,
			Title: fmt.Sprintf("%s/%s %s %s allocated without computing", w.namespace, w.name, verb, things),
			Hours: Known(idle * w.part()), Money: m.modelMoney(w.model, idle*w.part()), Patch: patch,
			Risk:       "The next request is delayed by a start. Ask the owner first.",
			Confidence: word, Because: because, Query: m.sampled(d.IdleAllocations(w.matchers(d)...), w.part()),
		}, w.namespace, w.name, w.profile))
	}
	return all, taken
}

// stop is the command that releases a workload's GPUs.
func (w *work) stop() string {
	ns, name := text.Quote(w.namespace), text.Quote(w.name)
	switch w.kind {
	case "Deployment":
		return fmt.Sprintf("kubectl -n %s scale deployment %s --replicas=0   # or an HPA with minReplicas: 0", ns, name)
	case "StatefulSet":
		return fmt.Sprintf("kubectl -n %s scale statefulset %s --replicas=0", ns, name)
	case "Pod":
		return fmt.Sprintf("kubectl -n %s delete pod %s", ns, name)
	}
	return fmt.Sprintf("kubectl -n %s get pods -o wide | grep %s   # find its owner, then suspend or scale that", ns, name)
}

// smaller turns right-sizing into actions, but for those of which most is to be
// reclaimed anyway.
func (m *maker) smaller(reclaimed map[workKey]bool) []Action {
	var all []Action
	d := m.a.Dialect
	for _, s := range m.r.MIG.RightSize {
		profile := s.From
		if profile == "whole GPU" {
			profile = ""
		}
		w := m.work[workKey{s.Namespace, s.Workload, profile}]
		if w == nil || reclaimed[w.workKey] {
			continue
		}
		allocated, _, _ := m.markedHours(w.allocated)
		word := "medium"
		if s.Evidence.Or(0) < 72 {
			word = "low"
		}
		all = append(all, m.action(Action{
			Kind: "right-size", Effect: frees,
			Title: fmt.Sprintf("%s/%s fits a %s slice in place of %s", s.Namespace, s.Workload, s.To, s.From),
			Hours: s.Hours, Money: m.modelMoney(w.model, s.Hours.Or(0)),
			Patch:      fmt.Sprintf("resources:            # of the container, in the pods of %s/%s\n  limits:\n    nvidia.com/mig-%s: 1", s.Namespace, s.Workload, strings.ReplaceAll(s.To, "+", ".")),
			Risk:       "A peak outside the window may not fit; throughput falls where compute is the bottleneck.",
			Confidence: word, Because: fmt.Sprintf("%.3g hours of one pod", s.Evidence.Or(0)),
			Query: m.sampled(d.Allocations(w.matchers(d)...), s.Hours.Or(0)/allocated),
		}, s.Namespace, s.Workload, s.From))
	}
	return all
}
