package capacity

import "math"

// take replaces what the rows grow by with an observation.
func (l *Ledger) take(gpus []Seen) {
	for i := range l.rows {
		r := &l.rows[i]
		r.shares, r.busySlack, r.busyIdle = [NumPlaces]int64{}, 0, 0
	}
	l.shares = int64(len(gpus)) * GPUShares
	var key Key // neighbours often share a row
	row := -1
	for i := range gpus {
		c := &gpus[i]
		for k := range c.Parts {
			p := &c.Parts[k]
			next := Key{c.Pool, c.Model, p.Tenant, p.Namespace}
			if row < 0 || next != key {
				key, row = next, l.row(next)
			}
			l.rows[row].take(p, l.options.IdleBelow)
		}
	}
}

// row returns the index of the key's row, and adds it up to MaxRows.
func (l *Ledger) row(k Key) int {
	if i, ok := l.index[k]; ok {
		return i
	}
	other := Key{Pool: Other, Model: Other, Tenant: Other, Namespace: Other}
	if len(l.rows) >= l.options.MaxRows && k != other {
		return l.row(other)
	}
	base := len(l.rows) // itself while free
	if k != other && (k.Tenant != "" || k.Namespace != "") {
		base = l.row(Key{Pool: k.Pool, Model: k.Model})
	}
	i := len(l.rows)
	l.index[k] = i
	l.rows = append(l.rows, ledgerRow{Row: Row{Key: k}, base: base})
	return i
}

// take adds a piece of a GPU.
func (r *ledgerRow) take(p *Piece, idleBelow float64) {
	shares := int64(p.Shares)
	if p.State != Allocated {
		r.shares[placeOf[p.State]] += shares
		return
	}
	ratio, known := p.Busy.Get()
	switch {
	case !known || ratio < 0 || ratio > 1+rounding: // not measured
		r.shares[Unmeasured] += shares
	case ratio < idleBelow:
		r.shares[Idle] += shares
		r.busyIdle += shares * int64(math.Round(ratio*million))
	default:
		r.shares[Slack] += shares
		r.busySlack += shares * int64(math.Round(min(ratio, 1)*million))
	}
}

// rounding is how far above 1 a busy ratio may be.
const rounding = 0.01
