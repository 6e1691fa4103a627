package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxHeadroom bounds the replicas prepared for one forecast in a round.
const maxHeadroom = 1000

// addForecasts sorts them, and lists their pods' kinds before nodes are
// classified.
func (w *world) addForecasts(forecasts []Forecast) {
	w.forecasts = slices.Clone(forecasts)
	slices.SortStableFunc(w.forecasts, func(a, b Forecast) int { return strings.Compare(a.Name, b.Name) })
	for i := range w.forecasts {
		w.kindOf(&w.forecasts[i].Like)
	}
	w.expected = make([]verdict, len(w.forecasts))
}

// prepare makes room for the replicas that forecasts ask for beyond those there
// are: in what is free or on its way, by cutting a card, or with a node. A
// forecast only ever adds: nothing is given back because of one.
func (w *world) prepare() {
	for i := range w.forecasts {
		w.expected[i] = w.prepareFor(&w.forecasts[i])
	}
}

// wantedBy is how many replicas the policy prepares for.
func (w *world) wantedBy(f *Forecast) int {
	level := map[Headroom]float64{HeadroomLow: f.Low, HeadroomExpected: f.Expected, HeadroomHigh: f.High}[w.policy.Headroom]
	if !(level > 0) { // also for what is no number
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
	extra := min(w.wantedBy(f)-max(f.Have, 0), maxHeadroom)
	if extra <= 0 || w.hold != "" || f.At.Before(w.now) {
		return verdict{ForecastMet, text}
	}
	k := &w.kinds[w.kindOf(&f.Like)]
	placed, bought := 0, 0
	for range extra {
		now, acted := w.prepareOne(f, k)
		if !now {
			break
		}
		placed++
		if acted {
			bought++
		}
	}
	switch {
	case bought > 0:
		return verdict{ForecastHeadroom, fmt.Sprintf("%s; room for %d more, %d of them made in this round", text, placed, bought)}
	case placed == extra:
		return verdict{ForecastMet, fmt.Sprintf("%s; room for %d more is there", text, placed)}
	}
	return verdict{ForecastUnmet, fmt.Sprintf("%s; room for %d of %d more: %s", text, placed, extra, w.whyUnmet(f, k))}
}

func (w *world) whyUnmet(f *Forecast, k *kind) string {
	if t := w.tenantIndex(&f.Like); t >= 0 && !w.guaranteed(&f.Like) {
		return "the rest is beyond what " + f.Like.Tenant + " is guaranteed"
	}
	reason, detail := w.unbought(k)
	if reason == NoPoolFits || reason == "" && detail == "" {
		return "it is too early, or would cost more than being late"
	}
	return fmt.Sprintf("%s: %s", reason, detail)
}

// guaranteed reports whether one more pod is within what its tenant is
// guaranteed, or under no quota: nothing is bought ahead for demand that may
// have to give way.
func (w *world) guaranteed(p *Pod) bool {
	t := w.tenantIndex(p)
	return t < 0 || w.tree.Used(p.Tenant).Add(w.amountOf(p)).Fits(w.tenants[t].Guarantee)
}

// prepareOne makes room for one replica, and reports whether there is any and
// whether it took an action.
func (w *world) prepareOne(f *Forecast, k *kind) (there, acted bool) {
	if !w.guaranteed(&f.Like) {
		return false, false
	}
	if n := w.tightest(k); n >= 0 {
		w.give(k, n)
		return w.chargeLike(f), false
	}
	if n := w.soonest(k); n >= 0 {
		w.give(k, n)
		return w.chargeLike(f), false
	}
	p := pending{pod: &f.Like, kind: w.kindOf(&f.Like)}
	before := len(w.actions)
	cut, canCut := w.cutOption(k, &f.Like)
	canCut = canCut && !cut.unknown && len(w.actions) < w.policy.MaxActionsPerRound && w.worthwhile(f, k, cut)
	buy, canBuy := w.buyOption(len(w.pending), k, &f.Like, false)
	canBuy = canBuy && (buy.node >= 0 || w.pools[buy.pool].action >= 0 || len(w.actions) < w.policy.MaxActionsPerRound) && w.worthwhile(f, k, buy)
	switch {
	case canCut && (!canBuy || cut.cost <= buy.cost):
		w.commitCut(&p, k, cut, "; forecast for "+f.At.UTC().Format("15:04:05"))
	case canBuy && buy.node >= 0: // asked for in an earlier round
		w.open(&p, k, buy)
		return w.chargeLike(f), false
	case canBuy:
		w.commitBuy(&p, k, buy, cut, canCut)
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

// worthwhile weighs an action now against the same action once the demand is
// there: what is bought too early, or for nothing, against having the replica
// wait. The chance of nothing is the forecast's own error.
func (w *world) worthwhile(f *Forecast, k *kind, o option) bool {
	lead := o.at.Sub(w.now)
	early := max(f.At.Sub(w.now)-lead, 0)
	late := w.policy.HeadroomWeight * w.waiting(k, f.Like.Priority, max(lead, 0))
	vain := math.Min(math.Max(f.Error, 0), 1)
	if o.victims == nil && o.cut.before == nil { // a node
		ps := &w.pools[o.pool]
		if o.node >= 0 { // paid for already
			return true
		}
		share := ps.price() / math.Max(1, math.Floor(float64(w.fitsNew(k, ps))))
		return share*(early.Hours()+vain*w.policy.NodeLife.Hours()) <= late
	}
	return early <= lead && w.policy.DisruptionCost*(1+vain) <= late
}

// fitsNew is how many pods of the kind a new node of the pool takes.
func (w *world) fitsNew(k *kind, ps *poolState) int {
	r := ps.empty.clone()
	n := 0
	for n < 4*maxCardsOfNode && w.lacks(k, &r) == "" {
		w.take(k, &r)
		n++
	}
	return n
}

// number is "6" or "5.4".
func number(v float64) string { return fmt.Sprintf("%.4g", v) }
