package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxHeadroom bounds the replicas prepared for one forecast in a reconcile.
const maxHeadroom = 1000

// addForecasts sorts forecasts and adds their pods' kinds. It runs before
// classify.
func (w *world) addForecasts(forecasts []Forecast) {
	w.forecasts = slices.Clone(forecasts)
	slices.SortStableFunc(w.forecasts, func(a, b Forecast) int { return strings.Compare(a.Name, b.Name) })
	for i := range w.forecasts {
		w.kindOf(&w.forecasts[i].Like)
	}
	w.expected = make([]verdict, len(w.forecasts))
}

// prepare provides capacity for the replicas that forecasts expect beyond the
// existing ones: in free or upcoming capacity, by repartitioning a GPU, or with a
// node. A forecast only adds: nothing is removed because of one.
func (w *world) prepare() {
	for i := range w.forecasts {
		w.expected[i] = w.prepareFor(&w.forecasts[i])
	}
}

// replicasFor is the number of replicas that the policy prepares for.
func (w *world) replicasFor(f *Forecast) int {
	level := map[Headroom]float64{HeadroomLow: f.Low, HeadroomExpected: f.Expected, HeadroomHigh: f.High}[w.policy.Headroom]
	if !(level > 0) { // also for NaN
		return 0
	}
	return int(math.Ceil(math.Min(level, 1<<20)))
}

func (w *world) prepareFor(f *Forecast) verdict {
	if f.Unsure != "" {
		return verdict{ForecastUnsure, f.Unsure}
	}
	in := short(f.At.Sub(w.now))
	text := fmt.Sprintf("%s … %s … %s replicas in %s, error %.0f %%, has %d", number(f.Low), number(f.Expected), number(f.High), in, 100*f.Error, f.Have)
	extra := min(w.replicasFor(f)-max(f.Have, 0), maxHeadroom)
	if extra <= 0 || w.hold != "" || f.At.Before(w.now) {
		return verdict{ForecastMet, text}
	}
	k := &w.kinds[w.kindOf(&f.Like)]
	placed, scaledUp := 0, 0
	for range extra {
		now, acted := w.prepareOne(f, k)
		if !now {
			break
		}
		placed++
		if acted {
			scaledUp++
		}
	}
	switch {
	case scaledUp > 0:
		return verdict{ForecastHeadroom, fmt.Sprintf("%s; capacity for %d more, %d of them added in this reconcile", text, placed, scaledUp)}
	case placed == extra:
		return verdict{ForecastMet, fmt.Sprintf("%s; capacity for %d more is there", text, placed)}
	}
	return verdict{ForecastUnmet, fmt.Sprintf("%s; capacity for %d of %d more: %s", text, placed, extra, w.whyUnmet(f, k))}
}

func (w *world) whyUnmet(f *Forecast, k *kind) string {
	if t := w.tenantIndex(&f.Like); t >= 0 && !w.guaranteed(&f.Like) {
		return "the rest is beyond what " + f.Like.Tenant + " is guaranteed"
	}
	reason, detail := w.whyNoScaleUp(k)
	if reason == NoPoolFits || reason == "" && detail == "" {
		return "it is too early, or would cost more than being late"
	}
	return fmt.Sprintf("%s: %s", reason, detail)
}

// guaranteed reports whether one more pod is within its tenant's guarantee, or
// under no quota: nothing is added ahead for demand that may be reclaimed.
func (w *world) guaranteed(p *Pod) bool {
	t := w.tenantIndex(p)
	return t < 0 || w.tree.Used(p.Tenant).Add(w.amountOf(p)).Fits(w.tenants[t].Guarantee)
}

// prepareOne provides capacity for one replica, and reports whether there is
// any and whether it took an action.
func (w *world) prepareOne(f *Forecast, k *kind) (there, acted bool) {
	if !w.guaranteed(&f.Like) {
		return false, false
	}
	if n := w.tightest(k); n >= 0 {
		w.assign(k, n)
		return w.chargeLike(f), false
	}
	if n := w.soonest(k); n >= 0 {
		w.assign(k, n)
		return w.chargeLike(f), false
	}
	p := pending{pod: &f.Like, kind: w.kindOf(&f.Like)}
	before := len(w.actions)
	repartition, canRepartition := w.repartitionOption(k, &f.Like)
	canRepartition = canRepartition && !repartition.unknown && len(w.actions) < w.policy.MaxActionsPerReconcile && w.worthwhile(f, k, repartition)
	scaleUp, canScaleUp := w.scaleUpOption(len(w.pending), k, &f.Like, false)
	canScaleUp = canScaleUp && (scaleUp.node >= 0 || w.pools[scaleUp.pool].action >= 0 || len(w.actions) < w.policy.MaxActionsPerReconcile) && w.worthwhile(f, k, scaleUp)
	switch {
	case canRepartition && (!canScaleUp || repartition.cost <= scaleUp.cost):
		w.commitRepartition(&p, k, repartition, "; forecast for "+f.At.UTC().Format("15:04:05"))
	case canScaleUp && scaleUp.node >= 0: // requested in an earlier reconcile
		w.claim(&p, k, scaleUp)
		return w.chargeLike(f), false
	case canScaleUp:
		w.commitScaleUp(&p, k, scaleUp, repartition, canRepartition)
	default:
		return false, false
	}
	for a := before; a < len(w.actions); a++ {
		w.actions[a].Reason = ForecastHeadroom
	}
	return w.chargeLike(f), true
}

func (w *world) chargeLike(f *Forecast) bool {
	if t := w.tenantIndex(&f.Like); t >= 0 {
		w.tree = w.tree.Force(f.Like.Tenant, w.amountOf(&f.Like))
	}
	return true
}

// worthwhile compares the cost of an action now, which may be early or
// needless, with that of a pending replica if the action follows the demand.
// The forecast's error is the probability of a needless action.
func (w *world) worthwhile(f *Forecast, k *kind, o option) bool {
	lead := o.at.Sub(w.now)
	early := max(f.At.Sub(w.now)-lead, 0)
	late := w.policy.HeadroomWeight * w.waitCost(k, f.Like.Priority, max(lead, 0))
	needless := math.Min(math.Max(f.Error, 0), 1)
	if o.victims == nil && o.repartition.before == nil { // a node
		ps := &w.pools[o.pool]
		if o.node >= 0 { // paid for already
			return true
		}
		share := ps.price() / float64(max(1, w.fitsNew(k, ps)))
		return share*(early.Hours()+needless*w.policy.NodeLife.Hours()) <= late
	}
	return early <= lead && w.policy.DisruptionCost*(1+needless) <= late
}

// fitsNew is how many pods of the kind fit on a new node of the pool.
func (w *world) fitsNew(k *kind, ps *poolState) int {
	r := ps.empty.clone()
	n := 0
	for n < 4*maxGPUsOfNode && w.lacks(k, &r) == "" {
		w.take(k, &r)
		n++
	}
	return n
}

// number is "6" or "5.4".
func number(v float64) string { return fmt.Sprintf("%.4g", v) }
