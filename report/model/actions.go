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
	Effect     string `json:"effect" doc:"\"frees\" GPU-hours; \"lost\": the hours are over, and nothing frees them now; or \"serves\" pending demand."`
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
	lost   = "lost"
	serves = "serves"
)

// worthwhile is the minimum size of an action, as a share of all GPU-hours.
const worthwhile = 0.001

// actions derives recommendations from the other sections. Each contains the PromQL of its hours, so that
// users can verify the figure.
func actions(r *Report, a answers, c pricing, work map[workKey]*work) []Action {
	out := proposals{least: worthwhile * c.ledger.Capacity / hour}
	out.confidence, out.because = confidence(r.Window, r.Answer.Quality.Coverage)
	smaller(&out, a, c, work, reclaim(&out, a, c, work))
	shrink(&out, a, c, r.Pools)
	scattered(&out, a, c, r.Pools)
	replace(&out, a, c, r.Reliability.Nodes)
	grow(&out, a, c, r.Demand.Unmet, r.Pools)
	raiseHPAs(&out, a, r.Demand.HPAs)
	slices.SortStableFunc(out.all, func(a, b Action) int {
		return cmp.Or(strings.Compare(a.Effect, b.Effect), cmp.Compare(b.Money.Or(-1), a.Money.Or(-1)), cmp.Compare(b.Hours.Or(-1), a.Hours.Or(-1)), strings.Compare(a.ID, b.ID))
	})
	return out.all
}

// proposals collects actions while they are derived.
type proposals struct {
	least               float64 // hours from which an action is worthwhile
	confidence, because string  // for the window as a whole
	all                 []Action
}

// propose adds an action about a subject if it is worthwhile. It sets the action's id, which is the same in
// the next report, and its confidence, which is the window's unless the action has its own.
func (out *proposals) propose(a Action, subject ...string) {
	if a.Kind != "raise-hpa" && a.Hours.Or(0) < out.least {
		return
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(strings.Join(subject, "\xff"))) // never fails
	a.ID = fmt.Sprintf("%s-%08x", a.Kind, h.Sum32())
	a.Confidence, a.Because = cmp.Or(a.Confidence, out.confidence), strings.TrimSuffix(out.because+"; "+a.Because, "; ")
	if a.Effect == serves {
		a.Money = Unknown("it serves demand and saves nothing")
	}
	out.all = append(out.all, a)
}

// sampled is the query behind a figure: the sum of an expression over the window, in its steps, times a
// factor.
func sampled(w query.Window, expression string, factor float64) string {
	q := query.Sampled(expression, w.Length(), w.Coarse)
	if factor != 1 {
		q += " * " + strconv.FormatFloat(factor, 'g', -1, 64)
	}
	return q
}

// confidence says how well figures of the past predict the future, from the length of the window and the
// share of it that has a record.
func confidence(w Window, coverage Number) (word, because string) {
	days, seen := w.Hours/24, coverage.Or(0)
	because = fmt.Sprintf("the window has %.3g days, and %s of it has a record", days, percent(seen))
	switch {
	case days >= 7 && seen >= 0.95:
		return "high", because
	case days >= 1 && seen >= 0.8:
		return "medium", because
	}
	return "low", because
}

// gauge returns how many of a pool's GPUs were in a state, on the coarse grid, and the query for it.
func (a answers) gauge(pool, state string) ([]float64, string) {
	values := slices.Repeat([]float64{math.NaN()}, a.coarse.N+1)
	for _, l := range a.Lines[query.GPUs] {
		if l.Labels.Get(metric.LabelPool) == pool && l.Labels.Get(metric.LabelState) == state {
			addUp(values, a.values(l))
		}
	}
	expression := "sum (max by (" + metric.LabelPool + ", " + metric.LabelModel + ") (" +
		a.Dialect.Select(metric.AutoscalerGPUs.Name, query.Equal(metric.LabelPool, pool), query.Equal(metric.LabelState, state)) + "))"
	return values, expression
}

// reclaim proposes to release GPUs of pods that did not compute for a quarter of an hour or more, by
// workload. It returns the workloads of which most of the GPUs should be released.
func reclaim(out *proposals, a answers, c pricing, work map[workKey]*work) map[workKey]bool {
	taken := map[workKey]bool{}
	for _, w := range sortedWork(work) {
		idle, _, _ := a.markedHours(w.idle)
		allocated, _, _ := a.markedHours(w.allocated)
		if idle == 0 {
			continue
		}
		taken[w.workKey] = idle > allocated/2
		things := "whole GPUs"
		if w.profile != "" {
			things = w.profile + " slices"
		}
		effect, title, patch, word, because := frees, "Release %s of %s/%s, which does not compute", w.stop(), "", ""
		switch {
		case atEnd(w.idle):
		case atEnd(w.allocated):
			effect, title = lost, "Find out why %s of %s/%s did not compute"
			patch = fmt.Sprintf("kubectl -n %s get pods -o wide | grep %s   # it computes now: ask its owner why it did not", text.Quote(w.namespace), text.Quote(w.name))
		default:
			effect, title, word, because = lost, "Find out why %s of %s/%s did not compute", "low", "nothing was allocated to it at the end of the window"
			patch = fmt.Sprintf("kubectl -n %s get deployments,statefulsets,jobs,cronjobs | grep %s   # nothing runs now: see what may start it again", text.Quote(w.namespace), text.Quote(w.name))
		}
		out.propose(Action{
			Kind: "reclaim", Effect: effect,
			Title: fmt.Sprintf(title, w.things(things), w.namespace, w.name),
			Hours: Known(idle * w.part()), Money: c.money("", w.model, idle*w.part()), Patch: patch,
			Risk:       "The next request waits until the pod has started. Ask the owner first.",
			Confidence: word, Because: because, Query: w.proof(a, a.Dialect.IdleAllocations, w.part()),
		}, w.namespace, w.name, w.profile, w.model)
	}
	return taken
}

// stop is the command that releases the workload's GPUs.
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

// smaller proposes smaller MIG instances. It skips workloads of which most should be reclaimed anyway.
func smaller(out *proposals, a answers, c pricing, work map[workKey]*work, reclaimed map[workKey]bool) {
	for _, w := range sortedWork(work) {
		s := w.fits
		if s == nil || reclaimed[w.workKey] {
			continue
		}
		allocated, _, _ := a.markedHours(w.allocated)
		word := "medium"
		if s.Evidence.Or(0) < 72 {
			word = "low"
		}
		out.propose(Action{
			Kind: "right-size", Effect: frees,
			Title: fmt.Sprintf("Give %s/%s a %s slice in place of a %s", s.Namespace, s.Workload, s.To, w.things(s.From)),
			Hours: s.Hours, Money: c.money("", w.model, s.Hours.Or(0)),
			Patch:      fmt.Sprintf("resources:            # of the container, in the pods of %s\n  limits:\n    nvidia.com/mig-%s: 1", text.Line(s.Namespace+"/"+s.Workload), strings.ReplaceAll(s.To, "+", ".")),
			Risk:       "A larger peak than in this window may not fit. Throughput falls if compute is the bottleneck.",
			Confidence: word, Because: fmt.Sprintf("one pod was observed for %.3g hours", s.Evidence.Or(0)),
			Query: w.proof(a, a.Dialect.Allocations, s.Hours.Or(0)/allocated),
		}, w.namespace, w.name, s.From, w.model)
	}
}

// grow proposes to raise limits for demand that was unserved because a pool or a quota was at its limit.
func grow(out *proposals, a answers, c pricing, unmet []Unmet, pools []Pool) {
	for _, u := range unmet {
		act := Action{Effect: serves, Hours: u.Hours}
		switch u.Reason {
		case "PoolAtMax":
			act.Kind, act.Title = "grow-pool", fmt.Sprintf("Raise the maximum of a pool: pods that request %s were pending", Shape(u.Shape))
			act.Patch, act.Risk = raisePools(pools, c, u.Shape), "The added nodes cost money for as long as the demand lasts."
		case "QuotaExceeded", "BorrowedWaits":
			act.Kind, act.Title = "raise-quota", fmt.Sprintf("Raise a quota: pods that request %s were pending (%s)", Shape(u.Shape), u.Reason)
			act.Patch, act.Risk = "kubectl get gpuquotas   # raise spec.amounts[].guaranteed or limit of the tenant; section 3 has the use of each tenant", "While the tenant uses its guarantee, others cannot borrow those GPUs."
		default:
			continue
		}
		act.Query = sampled(a.Window, "max by ("+metric.LabelShape+", "+metric.LabelReason+") ("+a.Dialect.Select(metric.AutoscalerPendingGPUs.Name,
			query.Equal(metric.LabelShape, u.Shape), query.Equal(metric.LabelReason, u.Reason))+")", 1)
		out.propose(act, u.Shape, u.Reason)
	}
}

// raisePools returns the commands that raise the maximum of pools that have reached it, if their nodes have
// enough GPUs for a pod of the shape.
func raisePools(pools []Pool, c pricing, shape string) string {
	var lines []string
	gpus, _ := strconv.ParseFloat(shape, 64) // 0 for slices
	for _, p := range pools {
		high, ok := p.Max.Get()
		now, also := p.Now.Get()
		if ok && also && now >= high && c.size[p.Pool].Or(gpus) >= gpus {
			lines = append(lines, fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"max":%.0f}}'`, text.Quote(p.Pool), high+1))
		}
	}
	if len(lines) == 0 {
		return "kubectl get gpunodepools   # raise spec.max of the pool that fits the pods"
	}
	return strings.Join(lines, "\n")
}

// raiseHPAs proposes a higher maximum for HPAs that were limited by it and still have the same one.
func raiseHPAs(out *proposals, a answers, all []HPA) {
	d := a.Dialect
	most := map[string]float64{} // maximum at the end
	for _, s := range a.Vectors[query.HPAMax] {
		most[s.Labels.Get(d.AutoscalerNamespace())+"/"+s.Labels.Get(metric.LabelHPA)] = s.Value
	}
	for _, h := range all {
		high := h.Max.Or(0)
		limited := strings.Contains(h.Reasons, "TooManyReplicas") || a.open(query.HPALimited) != ""
		if now, there := most[h.Namespace+"/"+h.Name]; !there || now > high || !limited || h.AtMax.Or(0) < 0.05*a.Window.Length().Hours() {
			continue
		}
		kind := func(k string) string {
			return "max by (" + d.AutoscalerNamespace() + ", " + metric.LabelHPA + ") (" + d.Select(metric.AutoscalerHPAReplicas.Name, query.Equal(d.AutoscalerNamespace(), h.Namespace), query.Equal(metric.LabelHPA, h.Name), query.Equal(metric.LabelKind, k)) + ")"
		}
		out.propose(Action{
			Kind: "raise-hpa", Effect: serves, Title: fmt.Sprintf("Raise the maximum of HPA %s/%s, which was reached", h.Namespace, h.Name), Hours: h.AtMax,
			Patch: fmt.Sprintf(`kubectl -n %s patch hpa %s --type merge -p '{"spec":{"maxReplicas":%.0f}}'`, text.Quote(h.Namespace), text.Quote(h.Name), math.Ceil(high*1.5)),
			Risk:  "More replicas need more GPUs: check the quota and the pool first.",
			Query: sampled(a.Window, "("+kind("current")+") >= bool ("+kind("max")+")", 1),
		}, h.Namespace, h.Name)
	}
}

// quantile is a quantile of the known values, computed as PromQL does.
func quantile(q float64, values []float64) Number {
	known := known(values)
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

// shrink proposes a lower minimum for pools whose minimum keeps nodes that were nearly always free.
func shrink(out *proposals, a answers, c pricing, pools []Pool) {
	const q = 0.05
	for _, p := range pools {
		size := c.size[p.Pool].Or(0)
		values, expression := a.gauge(p.Pool, "free")
		free, ok := quantile(q, values).Get()
		low, atMin := p.Min.Get()
		if !ok || size <= 0 || !atMin || p.Now.Or(0) > low {
			continue // nodes were requested above the minimum
		}
		nodes := min(math.Floor(free/size), low)
		if nodes < 1 {
			continue
		}
		w, step := a.Window, a.coarse.Step.Hours()
		hours, record := nodes*size*step*float64(len(known(values))), query.Over(expression, w.Length(), w.Coarse)
		out.propose(Action{
			Kind: "shrink-pool", Effect: frees,
			Title: fmt.Sprintf("Lower the minimum of pool %s: %.0f %s unused 95 %% of the time", p.Pool, nodes, plural(nodes, "node was", "nodes were")),
			Hours: Known(hours), Money: c.money(p.Pool, p.Model, hours),
			Patch: fmt.Sprintf(`kubectl patch gpunodepool %s --type merge -p '{"spec":{"min":%.0f}}'`, text.Quote(p.Pool), low-nodes),
			Risk:  fmt.Sprintf("The next pods are pending until a node is ready (median: %s).", Seconds(p.ReadyP50)),
			Query: fmt.Sprintf("clamp_max(floor(quantile_over_time(%g, %s) / %g), %g) * %g * count_over_time(%s)", q, record, size, low, size*step, record),
		}, p.Pool)
	}
}

// scattered proposes what to do about free GPUs that fit no pending pod, by pool.
func scattered(out *proposals, a answers, c pricing, pools []Pool) {
	for _, p := range pools {
		for _, kind := range []struct{ state, kind, patch, risk string }{
			{"fragmented", "repartition", fmt.Sprintf("gpuscale-autoscaler explain pool %s   # shows what blocks a repartition, such as spec.mig.idleAfter or spec.mig.allowedProfiles", text.Quote(p.Pool)),
				"A GPU serves no pod while it is repartitioned, for about a minute."},
			{"stranded", "strand", fmt.Sprintf("gpuscale-autoscaler explain pool %s   # then lower the CPU and memory that GPU pods request, or use nodes with more", text.Quote(p.Pool)),
				"Pods with less CPU may start more slowly."},
		} {
			values, expression := a.gauge(p.Pool, kind.state)
			hours := a.total(values)
			if _, there := p.Now.Get(); !there || hours == 0 {
				continue // nothing can be explained about a pool that is gone
			}
			out.propose(Action{
				Kind: kind.kind, Effect: frees, Title: fmt.Sprintf("Make the %s GPUs of pool %s usable", kind.state, p.Pool),
				Hours: Known(hours), Money: c.money(p.Pool, p.Model, hours), Patch: kind.patch, Risk: kind.risk, Because: causes(a, p.Pool, kind.state),
				Query: sampled(a.Window, expression, 1),
			}, p.Pool)
		}
	}
}

// causes lists the causes of a pool's stranded or fragmented GPUs, those with the most hours first.
func causes(a answers, pool, state string) string {
	fragments := []string{"odd", "unpartitioned", "shape", "scattered"}
	type cause struct {
		name  string
		hours Number
	}
	var all []cause
	for _, l := range a.Lines[query.Stranded] {
		name := l.Labels.Get(metric.LabelCause)
		if l.Labels.Get(metric.LabelPool) == pool && slices.Contains(fragments, name) == (state == "fragmented") {
			if h := a.total(a.values(l)); h > 0 {
				all = append(all, cause{name, Known(h)})
			}
		}
	}
	if len(all) == 0 {
		return ""
	}
	most(all, func(c cause) Number { return c.hours }, func(c cause) string { return c.name })
	var words []string
	for _, c := range all {
		words = append(words, fmt.Sprintf("%s %.3g h", c.name, c.hours.Or(0)))
	}
	return "causes: " + strings.Join(words, ", ")
}

// replace proposes to replace nodes with sick GPUs. A node whose GPUs are healthy again is not drained, and of a node
// that has no GPU at the end of the window there is nothing to do.
func replace(out *proposals, a answers, c pricing, nodes []SickNode) {
	d := a.Dialect
	sick := map[string]bool{} // sick at the end of the window
	for _, l := range a.Lines[query.SickNodes] {
		_, sick[l.Labels.Get(metric.LabelNode)] = a.last(a.values(l)).Get()
	}
	models := map[string]string{} // at the end of the window, by node
	for _, s := range a.Vectors[query.Devices] {
		models[s.Labels.Get(metric.LabelNode)] = s.Labels.Get(metric.LabelModel)
	}
	for _, n := range nodes {
		model, there := models[n.Node]
		if !there {
			continue
		}
		expression := "count (max by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUInfo.Name, query.Equal(metric.LabelNode, n.Node)) + ") and on (" + metric.LabelGPUUUID +
			") (min by (" + metric.LabelGPUUUID + ") (" + d.Select(metric.GPUHealthy.Name) + ") == 0))"
		effect, title, risk, word, because := frees, "Replace node %s: it has sick GPUs", "Pods on the node's other GPUs are evicted.", "", ""
		patch := fmt.Sprintf("kubectl drain %s --ignore-daemonsets --delete-emptydir-data   # then replace or repair the node", text.Quote(n.Node))
		if !sick[n.Node] {
			effect, title, risk, word, because = lost, "Watch node %s: it had sick GPUs", "None: the command only reads.", "low", "its GPUs were healthy at the end of the window"
			patch = fmt.Sprintf("kubectl describe node %s   # healthy now: see whether it happens again", text.Quote(n.Node))
		}
		out.propose(Action{
			Kind: "replace", Effect: effect, Title: fmt.Sprintf(title, n.Node),
			Hours: n.Hours, Money: c.money("", model, n.Hours.Or(0)), Patch: patch,
			Risk: risk, Confidence: word, Because: because, Query: sampled(a.Window, expression, 1),
		}, n.Node)
	}
}
