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
	"github.com/gpuscale/gpuscale/report/query"
)

// Effects of an action.
const (
	frees  = "frees"
	serves = "serves"
)

// worthwhile is the least share of the capacity's hours that an action is about.
const worthwhile = 0.001

// actions proposes what the figures of the other sections ask for. Each has the
// PromQL that gives its hours, so that nobody needs to believe the report.
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

// id is the same for the same thing in another report.
func id(kind string, subject ...string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(subject, "\xff"))) // it cannot fail
	return fmt.Sprintf("%s-%08x", kind, h.Sum32())
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

// confidence is how sure a figure of the past tells of the time to come: how long
// was looked, and how much of it was seen.
func (m *maker) confidence() (word, because string) {
	days, seen := m.r.Window.Hours/24, m.r.Answer.Quality.Coverage.Or(0)
	because = fmt.Sprintf("%.3g days looked at, %s of them seen", days, percent(seen))
	switch {
	case days >= 7 && seen >= 0.95:
		return "high", because
	case days >= 1 && seen >= 0.8:
		return "medium", because
	}
	return "low", because
}

// reclaim is about holders that did not compute for a quarter of an hour or more,
// by workload. It also returns the workloads of which most is proposed to be taken.
func (m *maker) reclaim() ([]Action, map[workKey]bool) {
	var all []Action
	taken := map[workKey]bool{}
	d := m.a.Dialect
	for _, w := range m.sortedWork() {
		idle, _ := m.markedHours(w.idle)
		held, _ := m.markedHours(w.held)
		if idle == 0 {
			continue
		}
		taken[w.workKey] = idle > held/2
		expression := "max by (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ") (" + d.Select(metric.GPUIdleSeconds.Name, w.matchers(d)...) + fmt.Sprintf(") > bool %d", query.IdleAfter)
		word, because := m.confidence()
		holds, patch := "holds", w.stop()
		if !w.atEnd() {
			holds, word = "held", "low"
			because += "; it held nothing at the end"
			patch = fmt.Sprintf("kubectl -n %s get deployments,statefulsets,jobs,cronjobs | grep %s   # nothing to stop now: see what may start it again", shell(w.namespace), shell(w.name))
		}
		all = append(all, Action{
			ID: id("reclaim", w.namespace, w.name, w.profile), Kind: "reclaim", Effect: frees,
			Title: fmt.Sprintf("%s/%s %s %s without computing", w.namespace, w.name, holds, things(w.profile)),
			Hours: Known(idle * w.part()), Money: m.modelMoney(w.model, idle*w.part()), Patch: patch,
			Risk:       "Whoever waits for the next request waits for a start. Ask the owner first.",
			Confidence: word, Because: because, Query: m.sampled(expression, w.part()),
		})
	}
	return all, taken
}

func things(profile string) string {
	if profile == "" {
		return "whole cards"
	}
	return profile + " slices"
}

// shell quotes a word for a POSIX shell.
func shell(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// stop is how what a workload holds is given back.
func (w *work) stop() string {
	ns, name := shell(w.namespace), shell(w.name)
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
		if profile == "whole card" {
			profile = ""
		}
		w := m.work[workKey{s.Namespace, s.Workload, profile}]
		if w == nil || reclaimed[w.workKey] {
			continue
		}
		held, _ := m.markedHours(w.held)
		expression := "max by (" + metric.LabelGPUUUID + ", " + metric.LabelGPUInstanceID + ") (" + d.Select(metric.GPUHeld.Name, w.matchers(d)...) + ")"
		_, because := m.confidence()
		word := "medium"
		if s.Evidence.Or(0) < 72 {
			word = "low"
		}
		all = append(all, Action{
			ID: id("right-size", s.Namespace, s.Workload, s.From), Kind: "right-size", Effect: frees,
			Title: fmt.Sprintf("%s/%s would do with a %s slice in place of %s", s.Namespace, s.Workload, s.To, s.From),
			Hours: s.Hours, Money: m.modelMoney(w.model, s.Hours.Or(0)),
			Patch:      fmt.Sprintf("resources:            # of the container, in the pods of %s/%s\n  limits:\n    nvidia.com/mig-%s: 1", s.Namespace, s.Workload, strings.ReplaceAll(s.To, "+", ".")),
			Risk:       "A peak that was not in the window may not fit; throughput falls where the slice is the bound.",
			Confidence: word, Because: fmt.Sprintf("%s; %.3g hours of one holder", because, s.Evidence.Or(0)),
			Query: m.sampled(expression, s.Hours.Or(0)/held),
		})
	}
	return all
}

// gauge is cards of a pool in a state, on the coarse grid, and the expression.
func (m *maker) gauge(pool, state string) ([]float64, string) {
	values := make([]float64, m.coarse.N+1)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, l := range m.a.Lines[query.GPUs] {
		if l.Labels.Get(metric.LabelPool) != pool || l.Labels.Get(metric.LabelState) != state {
			continue
		}
		for i, v := range m.values(l) {
			switch {
			case math.IsNaN(v):
			case math.IsNaN(values[i]):
				values[i] = v
			default:
				values[i] += v
			}
		}
	}
	expression := "sum (max by (" + metric.LabelPool + ", " + metric.LabelModel + ") (" +
		m.a.Dialect.Select(metric.AutoscalerGPUs.Name, query.Equal(metric.LabelPool, pool), query.Equal(metric.LabelState, state)) + "))"
	return values, expression
}

// quantile of what is known, as Prometheus has it.
func quantile(q float64, values []float64) Number {
	var known []float64
	for i, v := range values {
		if i > 0 && !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return Unknown("no value in the window")
	}
	slices.Sort(known)
	rank := q * float64(len(known)-1)
	low := int(rank)
	high := min(low+1, len(known)-1)
	part := rank - float64(low)
	return Known(known[low]*(1-part) + known[high]*part)
}

// shrink is about pools whose minimum keeps nodes that were free nearly always.
func (m *maker) shrink() []Action {
	const q = 0.05
	var all []Action
	sizes := m.cardsPerNode()
	for _, p := range m.r.Pools {
		per := Unknown("")
		if n, ok := sizes[p.Pool]; ok {
			per = n
		}
		size, known := per.Get()
		values, expression := m.gauge(p.Pool, "free")
		free, ok := quantile(q, values).Get()
		if !ok || !known || size <= 0 {
			continue
		}
		low, atMin := p.Min.Get()
		nodes := math.Floor(free / size)
		if !atMin || p.Now.Or(0) > low {
			continue // its size is what was asked for, not what it must be
		}
		nodes = min(nodes, low)
		if nodes < 1 {
			continue
		}
		hours := nodes * size * m.r.Window.Hours
		word, because := m.confidence()
		w := m.a.Window
		all = append(all, Action{
			ID: id("shrink-pool", p.Pool), Kind: "shrink-pool", Effect: frees,
			Title: fmt.Sprintf("Pool %s keeps %.0f %s that 95 %% of the time nobody needed", p.Pool, nodes, plural(nodes, "node", "nodes")),
			Hours: Known(hours), Money: m.money(p.Pool, p.Model, hours),
			Patch:      fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"min":%.0f}}'`, shell(p.Pool), low-nodes),
			Risk:       fmt.Sprintf("The next demand waits for a node: %s at the median.", waitText(p.ReadyP50)),
			Confidence: word, Because: because,
			Query: fmt.Sprintf("clamp_max(floor(quantile_over_time(%g, %s) / %g), %g) * %g", q, query.Over(expression, w.Length(), w.Coarse), size, low, size*w.Length().Hours()),
		})
	}
	return all
}

func waitText(n Number) string {
	v, ok := n.Get()
	if !ok {
		return "nobody knows how long"
	}
	return fmt.Sprintf("%.3g s", v)
}

func plural(n float64, one, more string) string {
	if n == 1 {
		return one
	}
	return more
}

// scattered is about free cards that serve nobody, by pool.
func (m *maker) scattered() []Action {
	var all []Action
	for _, p := range m.r.Pools {
		for _, kind := range []struct{ state, kind, patch, risk string }{
			{"fragmented", "repartition", fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"mig":{"idleAfter":"5m"}}}'   # cut sooner; "gpuscale-autoscaler explain pool %s" says what stands against it`, shell(p.Pool), shell(p.Pool)),
				"A card being cut serves nobody for a minute or so."},
			{"stranded", "strand", fmt.Sprintf("gpuscale-autoscaler explain pool %s   # then lower the CPU and memory that GPU pods ask for, or take nodes with more", shell(p.Pool)),
				"None in looking. Pods with less CPU may start slower."},
		} {
			values, expression := m.gauge(p.Pool, kind.state)
			hours := m.total(values)
			if hours == 0 {
				continue
			}
			word, because := m.confidence()
			if cause := m.causes(p.Pool, kind.state); cause != "" {
				because += "; causes: " + cause
			}
			all = append(all, Action{
				ID: id(kind.kind, p.Pool), Kind: kind.kind, Effect: frees, Title: fmt.Sprintf("Pool %s has cards that are %s", p.Pool, kind.state),
				Hours: Known(hours), Money: m.money(p.Pool, p.Model, hours), Patch: kind.patch, Risk: kind.risk, Confidence: word, Because: because,
				Query: m.sampled(expression, 1),
			})
		}
	}
	return all
}

// causes names why, the most hours first.
func (m *maker) causes(pool, state string) string {
	fragments := []string{"odd", "uncut", "shape", "scattered"}
	type cause struct {
		name  string
		hours Number
	}
	var all []cause
	for _, l := range m.a.Lines[query.Stranded] {
		name := l.Labels.Get(metric.LabelCause)
		if l.Labels.Get(metric.LabelPool) == pool && slices.Contains(fragments, name) == (state == "fragmented") {
			if h := m.total(m.values(l)); h > 0 {
				all = append(all, cause{name, Known(h)})
			}
		}
	}
	most(all, func(c cause) Number { return c.hours }, func(c cause) string { return c.name })
	var words []string
	for _, c := range all {
		words = append(words, fmt.Sprintf("%s %.3g h", c.name, c.hours.Or(0)))
	}
	return strings.Join(words, ", ")
}

// replace is about nodes with sick cards.
func (m *maker) replace() []Action {
	var all []Action
	d := m.a.Dialect
	for _, n := range m.r.Reliability.Nodes {
		expression := "count (max by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUInfo.Name, query.Equal(metric.LabelNode, n.Node)) + ") and on (" + metric.LabelGPUUUID +
			") (min by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUHealthy.Name) + ") == 0))"
		word, because := m.confidence()
		all = append(all, Action{
			ID: id("replace", n.Node), Kind: "replace", Effect: frees, Title: fmt.Sprintf("Node %s had sick cards", n.Node),
			Hours: n.Hours, Money: m.nodeMoney(n.Node, n.Hours.Or(0)),
			Patch: fmt.Sprintf("kubectl drain %s --ignore-daemonsets --delete-emptydir-data   # then give it back to its owner", shell(n.Node)),
			Risk:  "What runs on the node's other cards is moved.", Confidence: word, Because: because, Query: m.sampled(expression, 1),
		})
	}
	return all
}

func (m *maker) nodeMoney(node string, hours float64) Number {
	for _, s := range m.a.Vectors[query.Cards] {
		if s.Labels.Get(metric.LabelNode) == node {
			return m.modelMoney(s.Labels.Get(metric.LabelModel), hours)
		}
	}
	return Unknown("the node's model is not known")
}

// grow is about demand that waited since a pool or a quota was at its bound.
func (m *maker) grow() []Action {
	var all []Action
	for _, u := range m.r.Demand.Unmet {
		a := Action{Effect: serves, Hours: u.Hours, Money: Unknown("it serves demand, it saves nothing")}
		switch u.Reason {
		case "PoolAtMax":
			a.Kind, a.Title = "grow-pool", fmt.Sprintf("Pods that want %s waited for a pool at its maximum", u.Shape)
			a.Patch, a.Risk = m.raisePools(), "It costs what the nodes cost, for as long as the demand lasts."
		case "QuotaExceeded", "BorrowedWaits":
			a.Kind, a.Title = "raise-quota", fmt.Sprintf("Pods that want %s waited for their quota (%s)", u.Shape, u.Reason)
			a.Patch, a.Risk = "kubectl get gpuquotas   # raise spec.guarantee or spec.limit of the tenant that waits; section 3 has who uses what", "What one tenant is guaranteed cannot be borrowed by others while it uses it."
		default:
			continue
		}
		a.ID = id(a.Kind, u.Shape, u.Reason)
		a.Confidence, a.Because = m.confidence()
		a.Query = m.sampled("max by ("+metric.LabelShape+", "+metric.LabelReason+") ("+m.a.Dialect.Select(metric.AutoscalerWaitingGPUs.Name,
			query.Equal(metric.LabelShape, u.Shape), query.Equal(metric.LabelReason, u.Reason))+")", 1)
		all = append(all, a)
	}
	return all
}

// raisePools names the pools that are at their maximum.
func (m *maker) raisePools() string {
	var lines []string
	for _, p := range m.r.Pools {
		high, ok := p.Max.Get()
		now, also := p.Now.Get()
		if ok && also && now >= high {
			lines = append(lines, fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"max":%.0f}}'`, shell(p.Pool), high+1))
		}
	}
	if len(lines) == 0 {
		return "kubectl get gpunodepools   # raise spec.max of the pool that fits the pods"
	}
	return strings.Join(lines, "\n")
}

func (m *maker) raiseHPAs() []Action {
	var all []Action
	d := m.a.Dialect
	for _, h := range m.r.Demand.HPAs {
		high, ok := h.Max.Get()
		if !ok || h.AtMax.Or(0) < 0.05*m.r.Window.Hours {
			continue
		}
		kind := func(k string) string {
			return "max by (" + d.Holder() + ", " + metric.LabelHPA + ") (" + d.Select(metric.AutoscalerHPAReplicas.Name, query.Equal(d.Holder(), h.Namespace), query.Equal(metric.LabelHPA, h.Name), query.Equal(metric.LabelKind, k)) + ")"
		}
		word, because := m.confidence()
		all = append(all, Action{
			ID: id("raise-hpa", h.Namespace, h.Name), Kind: "raise-hpa", Effect: serves, Title: fmt.Sprintf("HPA %s/%s ran at its maximum", h.Namespace, h.Name),
			Hours: h.AtMax, Money: Unknown("it serves demand, it saves nothing"),
			Patch: fmt.Sprintf(`kubectl -n %s patch hpa %s --type merge -p '{"spec":{"maxReplicas":%.0f}}'`, shell(h.Namespace), shell(h.Name), math.Ceil(high*1.5)),
			Risk:  "More replicas hold more cards: look at the quota and the pool first.", Confidence: word, Because: because,
			Query: m.sampled("("+kind("current")+") >= bool ("+kind("max")+")", 1),
		})
	}
	return all
}
