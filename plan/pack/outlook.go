package pack

import "github.com/gpuscale/gpuscale/gpu/mig"

// Outlook is the expected use of a MIG GPU under a demand. It is exact, and
// computed once for all states.
//
// Two things count. How many compute slices stay free when instances of the
// expected kinds are added until none fits: slices without memory, and memory
// without slices. And how many the next instance cannot use, by its kind's
// share: a GPU that 1g instances would fill completely has nothing left over,
// and yet no place for a 4g.
type Outlook struct {
	geometry *Geometry
	left     []float64 // by state: slices that stay free in the end
	cost     []float64 // by state: left, and what the next instance cannot use
	best     [][]int   // by state and profile: index of the step that costs least, -1 for none
}

// NewOutlook returns the outlook of c's states under demand: the share of each
// profile. Shares need not sum to 1; profiles that c does not have are ignored.
func NewOutlook(c *Geometry, demand map[mig.Profile]float64) *Outlook {
	n := len(c.states)
	o := &Outlook{geometry: c, left: make([]float64, n), cost: make([]float64, n), best: make([][]int, n)}
	shares := make([]float64, len(c.profiles))
	sum := 0.0
	for i, p := range c.profiles {
		shares[i] = max(0, demand[p])
		sum += shares[i]
	}
	for i := range shares {
		if sum > 0 {
			shares[i] /= sum
		}
	}
	for id := range c.states {
		o.look(id, shares)
	}
	return o
}

// look fills in a state after those that follow it.
func (o *Outlook) look(id int, shares []float64) {
	if o.best[id] != nil {
		return
	}
	s := &o.geometry.states[id]
	best := make([]int, len(s.steps))
	sum, weight, unusable := 0.0, 0.0, 0.0
	for k, steps := range s.steps {
		best[k] = -1
		for i, step := range steps {
			o.look(step.To, shares)
			if best[k] < 0 || o.cost[step.To] < o.cost[steps[best[k]].To] {
				best[k] = i
			}
		}
		if best[k] >= 0 {
			sum += shares[k] * o.left[steps[best[k]].To]
			weight += shares[k]
		}
		unusable += shares[k] * float64(s.compute-s.most[k]*o.geometry.profiles[k].Compute)
	}
	o.left[id] = float64(s.compute)
	if weight > 0 {
		o.left[id] = sum / weight
	}
	o.cost[id] = o.left[id] + unusable
	o.best[id] = best
}

// Left returns the expected number of compute slices that stay free on a GPU in
// this state.
func (o *Outlook) Left(state int) float64 { return o.left[state] }

// Cost returns, in compute slices, what demand loses on a GPU in this state:
// what stays free in the end and what the next instance cannot use.
func (o *Outlook) Cost(state int) float64 { return o.cost[state] }

// Place returns the best place for an instance of p on a GPU in this state: the
// start after which demand loses least, the first of equals. It is false when p
// does not fit.
func (o *Outlook) Place(state int, p mig.Profile) (Step, bool) {
	k, ok := o.geometry.index[p]
	if !ok || o.best[state][k] < 0 {
		return Step{}, false
	}
	return o.geometry.states[state].steps[k][o.best[state][k]], true
}
