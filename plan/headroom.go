package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxHeadroom bounds the replicas prepared for one forecast in a reconcile.
const maxHeadroom = 1000

// forecast is a forecast and what was decided about it.
type forecast struct {
	*Forecast
	verdict
}

// addForecasts sorts forecasts and adds their pods' kinds. It runs before
// classify.
func (w *world) addForecasts(forecasts []Forecast) {
	for i := range forecasts {
		w.forecasts = append(w.forecasts, &forecast{Forecast: &forecasts[i]})
	}
	slices.SortStableFunc(w.forecasts, func(a, b *forecast) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range w.forecasts {
		w.topology.ruled(&f.Like)
		w.kindOf(&f.Like)
	}
}

// prepare provides capacity for the replicas that forecasts expect beyond the
// existing ones: in free or upcoming capacity, by repartitioning a GPU, or with a
// node. A forecast only adds: nothing is removed because of one.
func (w *world) prepare() {
	tree := w.quotas.tree
	defer func() { w.quotas.tree = tree }() // replicas that do not exist use nothing
	for _, p := range w.pools {
		p.kept = min(p.kept, math.MaxInt32-1) + 1 // a gang that is pending comes before replicas of its priority
	}
	soonest := slices.Clone(w.forecasts)
	slices.SortStableFunc(soonest, func(a, b *forecast) int { return a.At.Compare(b.At) })
	for _, f := range soonest { // a later one takes what the node of an earlier one leaves
		f.verdict = w.prepareFor(f.Forecast)
	}
}

// replicasFor is the number of replicas that the policy prepares for.
func (policy *Policy) replicasFor(f *Forecast) int {
	level := map[Headroom]float64{HeadroomLow: f.Low, HeadroomExpected: f.Expected, HeadroomHigh: f.High}[policy.Headroom]
	if !(level > 0) { // also for NaN
		return 0
	}
	return int(math.Ceil(math.Min(level, 1<<20)))
}

func (w *world) prepareFor(f *Forecast) verdict {
	if f.Unsure != "" {
		return verdict{ForecastUnsure, f.Unsure}
	}
	when := "in " + short(f.At.Sub(w.now))
	if f.At.Before(w.now) {
		when = short(w.now.Sub(f.At)) + " ago"
	}
	text := fmt.Sprintf("%s (%s … %s) replicas %s, error %.0f %%, %d exist", number(f.Expected), number(f.Low), number(f.High), when, 100*f.Error, f.Have)
	switch {
	case f.At.Before(w.now):
		return verdict{ForecastUnsure, text + "; its time is past"}
	case w.policy.Headroom == HeadroomNone:
		return verdict{ForecastIgnored, text + "; policy.headroom is none"}
	case w.policy.expendable(&f.Like):
		return verdict{ForecastIgnored, text + "; " + w.policy.expendableText(&f.Like)}
	case f.Like.Unbound != "":
		return verdict{ForecastUnmet, text + "; " + f.Like.Unbound}
	case w.hold != "":
		return verdict{w.hold, text}
	}
	extra := min(w.policy.replicasFor(f)-max(f.Have, 0), maxHeadroom)
	if extra <= 0 {
		return verdict{ForecastMet, text}
	}
	p := w.expected(&f.Like)
	placed, scaledUp := 0, 0
	for i := range extra {
		w.serving.expecting = extra - i - 1
		now, acted := w.prepareOne(f, p)
		if !now {
			break
		}
		placed++
		if acted {
			scaledUp++
		}
	}
	w.serving.expecting = 0
	v := verdict{ForecastMet, fmt.Sprintf("%s; capacity for %d of %d more", text, placed, extra)}
	if scaledUp > 0 {
		v.reason = ForecastHeadroom
		v.detail += fmt.Sprintf(", %d of them added in this reconcile", scaledUp)
	}
	if placed < extra {
		v.detail += ": " + w.whyUnmet(p)
		if scaledUp == 0 {
			v.reason = ForecastUnmet
		}
	}
	return v
}

func (w *world) whyUnmet(p *pending) string {
	if t := w.quotas.tenantIndex(p.pod); t >= 0 && !w.quotas.guaranteed(p.pod) {
		return "the rest is beyond what " + p.pod.Tenant + " is guaranteed"
	}
	if full := w.quotas.limitAbove(p.pod); full != "" {
		return "the rest is beyond the limit of " + full
	}
	reason, detail := w.whyNoScaleUp(p)
	if reason == "" {
		return "it is too early to add more, or that costs more than pods that wait"
	}
	return fmt.Sprintf("%s: %s", reason, detail)
}

// prepareOne provides capacity for one replica, and reports whether there is
// any and whether it took an action.
func (w *world) prepareOne(f *Forecast, p *pending) (there, acted bool) {
	if !w.quotas.guaranteed(p.pod) || w.quotas.limitAbove(p.pod) != "" {
		return false, false
	}
	there, acted = w.provide(p, ForecastHeadroom, "forecast for "+f.At.UTC().Format("15:04:05"), func(o option) bool { return w.worthwhile(f, p, o) })
	if there { // under a quota or not
		w.quotas.tree = w.quotas.tree.Force(p.pod.Tenant, w.quotas.amountOf(p.pod))
	}
	return there, acted
}

// provide reserves capacity for a pod that is not pending yet: free on a sound node,
// upcoming, or by the cheapest action for it, where that is worth it now. It reports whether
// there is any and whether an action was taken. Where the cheapest action is not worth it yet,
// no other is taken: the cheapest will be worth it once the pod is pending.
func (w *world) provide(p *pending, reason Reason, why string, worth func(option) bool) (there, acted bool) {
	if to := w.reservable(p.kind, worth); to >= 0 {
		w.assign(p.kind, to)
		return true, false
	}
	all := slices.DeleteFunc(w.options(p), func(o option) bool { return o.unknown || w.delays(o) != "" })
	best, ok := cheapest(all)
	if !ok {
		return false, false
	}
	if !worth(best) {
		if best.kind == OptionRepartition && w.nodes[best.node].bound == 0 && worth(option{kind: OptionFree, node: best.node}) { // it stays until then
			w.touch(best.node).promised++
		}
		return false, false
	}
	before := len(w.actions.list)
	if best.kind == OptionRepartition {
		w.commitRepartition(p, best, "")
	} else {
		w.commitScaleUp(p, best, all)
	}
	for i := before; i < len(w.actions.list); i++ {
		a := w.actions.edit(i)
		a.Reason, a.Detail = reason, a.Detail+"; "+why
	}
	return true, best.kind != OptionNode || best.node < 0 // else it was requested in an earlier reconcile
}

// reservable is the node whose capacity is reserved for a kind that is not pending yet: the tightest sound one, or the
// next that is worth it, else the one that is ready first; -1 for none.
func (w *world) reservable(k *kind, worth func(option) bool) int {
	tightest, best := w.sound(k), w.soonest(k)
	switch {
	case tightest < 0:
		return best
	case worth(option{kind: OptionFree, node: tightest}):
		return tightest
	}
	least := entry{at: math.MaxInt64}
	for i, n := range w.eachNode() { // the index has no more than the tightest
		e, fits := w.value(k, i, false)
		if fits && !n.sick && e.before(least) && w.topology.rulesAllow(k, n) && worth(option{kind: OptionFree, node: i}) {
			best, least = i, e
		}
	}
	return best
}

// worthwhile compares the cost of an action now, which may be early or needless, with the
// cost of a replica that is pending because the action follows the demand. The forecast's
// error is the probability of a needless action. Free capacity costs only where it keeps an
// empty node from being removed: that is priced as a new node, kept for idleAfter instead of
// NodeLife. A repartition also keeps its node.
func (w *world) worthwhile(f *Forecast, p *pending, o option) bool {
	life := w.policy.NodeLife
	if o.kind == OptionFree {
		n := &w.nodes[o.node]
		if n.pool == nil || n.bound+n.promised > 0 || w.keepsEmpty(n.pool) {
			return true
		}
		o = w.priced(p, n.pool, -1)
		life, _ = w.idleAfter(n.pool)
	}
	lead := o.at.Sub(w.now)
	if o.kind == OptionRepartition {
		lead = o.ready.Sub(w.now)
	}
	early := max(f.At.Sub(w.now)-lead, 0)
	late := w.policy.HeadroomWeight * w.policy.waitCost(p.kind, p.pod.Priority, max(lead, 0))
	needless := math.Min(math.Max(f.Error, 0), 1)
	if o.kind == OptionNode {
		if o.node >= 0 { // paid for already
			return true
		}
		return o.share*o.pool.price*(early.Hours()+needless*life.Hours()) <= late
	}
	return early <= lead && w.policy.DisruptionCost*(1+needless) <= late && w.worthwhile(f, p, option{kind: OptionFree, node: o.node})
}

// number is "6" or "5.4".
func number(v float64) string { return fmt.Sprintf("%.4g", v) }
